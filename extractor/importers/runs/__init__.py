"""From a verl run (a launch script, overrides or a resolved config) to a project with the same experiment."""
