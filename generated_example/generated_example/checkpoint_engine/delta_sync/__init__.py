# vextract:template - edit freely
"""The package generated_example.checkpoint_engine.delta_sync."""
