# vextract:hook  yours: written once, never touched by an upgrade
"""The settings of the run that no release of verl has, for code of its own that reads them."""

import copy
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

# The run's reward managers as they were made, the one for training first.
MADE: list[Any] = []
UNKNOWN = Path(__file__).parents[3] / "config" / "unknown.yaml"


def with_own(config: Any, section: str = "") -> Any:
    """Return a config with these settings.

    Args:
        config: The run's, or a part of it; None stays None.
        section: The keys of that part; empty: the whole.
    """
    prefix = f"{section}." if section else ""
    text = UNKNOWN.read_text(encoding="utf-8") if UNKNOWN.is_file() else ""
    own = {key: value for key, value in (yaml.safe_load(text) or {}).items() if key.startswith(prefix)}
    if not own or config is None:
        return config
    config = copy.deepcopy(config)
    for key, value in own.items():
        name = key.removeprefix(prefix)
        if isinstance(config, DictConfig):
            OmegaConf.update(config, name, value, force_add=True)
            continue
        *parents, last = name.split(".")
        held = config
        for parent in parents:
            if isinstance(held, dict):
                held = held.setdefault(parent, {})
                continue
            if getattr(held, parent, None) is None:
                object.__setattr__(held, parent, OmegaConf.create())
            held = getattr(held, parent)
        if isinstance(held, (dict, DictConfig)):
            held[last] = value
        else:
            object.__setattr__(held, last, value)  # a dataclass that is not to be changed otherwise
    return config
