# vextract:template - edit freely
"""The package generated_example.vendored.workers.engine.fsdp."""
