"""Read the config of a verl release and of a project."""
