"""A project on disk: location, lock, base, journal, safe writing."""
