"""Import runs and edited verl copies; export projects to verl."""
