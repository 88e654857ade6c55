"""Hydra's composition, read statically: config trees and overrides to values. Nothing of a config is executed."""

from extractor.hydra.compose import Composed, Problem, compose
from extractor.hydra.overrides import BadOverride, Override, parse_override, write_override
from extractor.hydra.resolve import Unresolved, flatten, resolve

__all__ = [
    "BadOverride",
    "Composed",
    "Override",
    "Problem",
    "Unresolved",
    "compose",
    "flatten",
    "parse_override",
    "resolve",
    "write_override",
]
