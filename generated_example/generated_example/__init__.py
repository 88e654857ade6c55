# vextract:template base/__package__/__init__.py - edit freely
"""The project's code; README.md says what is in which folder."""

from .former_modules import FormerModules

FormerModules.answer_to(__name__)
