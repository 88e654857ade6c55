"""A project on disk: where it lies, its lock, its base, the journal of an upgrade, and how files are written safely."""
