# vextract:template - edit freely
"""The package generated_example.memory."""
