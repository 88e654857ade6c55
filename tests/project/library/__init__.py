"""A generated project as a library, from scripts and notebooks."""
