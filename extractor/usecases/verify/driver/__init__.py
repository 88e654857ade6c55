"""Run checks in a project's own Python without importing vextract."""
