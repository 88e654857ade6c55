# vextract:template - edit freely; upgrades merge your edits
"""The package generated_example.workers.utils."""
