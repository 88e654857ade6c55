"""Turn a verl run into a project with the same experiment."""
