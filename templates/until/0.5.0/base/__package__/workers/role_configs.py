# vextract:template - edit freely
"""From the project's config to what the vendored actor takes in this release of verl."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

# The vendored actor always takes the old log-probabilities that it is given.
TAKES_OWN_LOG_PROBS = False


def actor_config(config: Any, settings: dict[str, Any]) -> DictConfig:
    """Return the vendored actor's config: its settings as they are."""
    return OmegaConf.create(settings)
