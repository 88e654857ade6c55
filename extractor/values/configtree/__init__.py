"""Read Hydra configs statically: trees and overrides to values."""

from extractor.values.configtree.compose import Composed as Composed
from extractor.values.configtree.compose import Problem as Problem
from extractor.values.configtree.compose import compose as compose
from extractor.values.configtree.compose import nearest as nearest
from extractor.values.configtree.overrides import BadOverride as BadOverride
from extractor.values.configtree.overrides import Override as Override
from extractor.values.configtree.overrides import parse_override as parse_override
from extractor.values.configtree.overrides import write_override as write_override
from extractor.values.configtree.resolve import Unresolved as Unresolved
from extractor.values.configtree.resolve import flatten as flatten
from extractor.values.configtree.resolve import resolve as resolve
