"""Make an HTML page about runs from their directories."""
