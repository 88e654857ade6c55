"""The commands without printing: each returns a report."""
