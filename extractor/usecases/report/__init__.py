"""Make one HTML page about runs from the files in their directories."""
