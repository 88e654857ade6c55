# vextract:template shims/config_types.py - edit freely
"""Configuration classes that upstream names in annotations; here a section of the config is an OmegaConf node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class AlgoConfig(SimpleNamespace):
    """Settings of an advantage estimator: attributes with a mapping's `get`, for calling one by hand."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the setting `key`, or `default` where it is not set."""
        return getattr(self, key, default)


class HFModelConfig(SimpleNamespace):
    """Settings of a model."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the setting `key`, or `default` where it is not set."""
        return getattr(self, key, default)
