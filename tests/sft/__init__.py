"""Supervised training of a project, and reinforcement learning from what it gives."""
