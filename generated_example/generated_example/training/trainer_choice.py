# vextract:template base/__package__/training/trainer_choice.py - edit freely
"""Which trainer a config is for."""

from typing import Any

from .trainer import LocalPPOTrainer


def trainer_for(config: Any) -> type[LocalPPOTrainer]:
    """Return the class of the trainer that main.py makes."""
    return LocalPPOTrainer
