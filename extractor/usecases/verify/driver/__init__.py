"""Scripts that run in a project's own Python and import nothing of vextract."""
