"""Rollouts from a server: its process, and the projects that use one."""
