"""The scripts that run inside a project's own Python; they import nothing of vextract."""
