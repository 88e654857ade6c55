"""Read the config of a release of verl, and that of a project made of it."""
