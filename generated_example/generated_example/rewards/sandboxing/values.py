# vextract:template
"""Plain data as bytes, and back: what a candidate and its judge say to each other.

JSON, in which everything but None, truth values, texts, small integers, finite floats and lists is an object with one
key, its kind. What is read is of exactly these types, of no subclass, and of bounded size and depth: nothing in it has
a method that its sender wrote.

An object that is no data is sent as a number that the sender knows it by (a reference).
"""

import collections
import json
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

MAX_DEPTH = 100
SMALL = 1 << 53
PLAIN = (int, float, str, bool, list, tuple, dict, set, frozenset, bytes, complex)
TYPES: dict[str, Any] = {kind.__name__: kind for kind in PLAIN}
