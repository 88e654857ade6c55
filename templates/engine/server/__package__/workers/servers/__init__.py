# vextract:template - edit freely
"""Rollouts from an HTTP server: its process, the talk to it, and the engine that the trainer sees."""
