"""Read Hydra configs statically: trees and overrides to values."""

from extractor.values.configtree.compose import Composed, Problem, compose, nearest
from extractor.values.configtree.overrides import BadOverride, Override, parse_override, write_override
from extractor.values.configtree.resolve import Unresolved, flatten, resolve

__all__ = [
    "BadOverride",
    "Composed",
    "Override",
    "Problem",
    "Unresolved",
    "compose",
    "flatten",
    "nearest",
    "parse_override",
    "resolve",
    "write_override",
]
