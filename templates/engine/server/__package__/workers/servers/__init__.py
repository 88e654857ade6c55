# vextract:template - edit freely; upgrades merge your edits
"""Rollouts from an HTTP server: its process, the talk to it, and the engine that the trainer sees."""
