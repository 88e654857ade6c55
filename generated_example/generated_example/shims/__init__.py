# vextract:template - edit freely; upgrades merge your edits
"""Small stand-ins for upstream code that this project does not need as it is."""
