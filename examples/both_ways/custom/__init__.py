"""What this experiment brings. Importing it registers the hooks under their names, for the config to select."""

from . import algorithms, reward_manager

__all__ = ["algorithms", "reward_manager"]
