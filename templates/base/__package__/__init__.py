# vextract:template - edit freely
"""The project's code; README.md says what is in which folder."""

from .former_modules import FormerModules

FormerModules.answer_to(__name__)
