"""Make projects of other people's runs and copies of verl, and hand projects back to verl."""
