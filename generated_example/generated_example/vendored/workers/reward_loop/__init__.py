# vextract:template - edit freely
"""The package generated_example.vendored.workers.reward_loop."""
