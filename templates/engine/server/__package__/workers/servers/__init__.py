# vextract:template - edit freely
"""Rollouts, and what teachers say, from HTTP servers: their processes, and the talk to them."""
