"""Tell which files of a project hold settings."""

FOLDER = "config/"


def is_config(path: str) -> bool:
    """Return True for a file of a project that holds settings."""
    return path.startswith(FOLDER) and path.endswith((".yaml", ".yml"))
