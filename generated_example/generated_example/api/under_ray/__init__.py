# vextract:template - edit freely
"""The package generated_example.api.under_ray."""
