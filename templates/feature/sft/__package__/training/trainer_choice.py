# vextract:template - edit freely
"""Which trainer a config is for."""

from typing import Any

from .supervised import SupervisedTrainer
from .trainer import LocalPPOTrainer


def trainer_for(config: Any) -> type[LocalPPOTrainer]:
    """Return the class of the trainer that main.py makes: the supervised one for `local.supervised`."""
    return SupervisedTrainer if config.local.get("supervised") else LocalPPOTrainer
