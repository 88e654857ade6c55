# vextract:template shims/__init__.py - edit freely
"""Small stand-ins for upstream code that this project does not need as it is."""
