"""A page about runs: one HTML file, made from what a run leaves in its directory."""
