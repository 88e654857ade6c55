# vextract:template
"""Several scores of one response, and the weights that make them one reward."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from .scoring import plain, weighted_sum


class ComponentError(Exception):
    """A component raised; what it raised is the cause (`__cause__`).

    Attributes:
        component: its name.
    """

    def __init__(self, component: str) -> None:
        super().__init__(component)
        self.component = component


class WeightedComponents:
    """Scoring functions, each a part of the reward, as one scoring function.

    Args:
        functions: name -> function, called as verl calls a `compute_score`: data_source, solution_str, ground_truth,
            extra_info, all by name. It returns a number or a truth value. For worker processes it must be defined at
            the top of a module.
        weights: name -> weight; a function without one is reported and not rewarded.
    """

    def __init__(self, functions: Mapping[str, Callable[..., float]], weights: Mapping[str, float]) -> None:
        unknown = sorted(set(weights) - set(functions))
        if unknown:
            raise ValueError(f"weights for {', '.join(unknown)}, which are not among {', '.join(functions)}")
        self.functions = dict(functions)
        self.weights = {name: float(weight) for name, weight in weights.items()}

    def __call__(self, **sample: Any) -> dict[str, float]:
        """Score a sample.

        Returns:
            `score`, the weighted sum, and every component under its name.

        Raises:
            ComponentError: a component raised, or returned something other than a finite number.
        """
        values: dict[str, float] = {}
        for name, function in self.functions.items():
            try:
                values[name] = float(plain(function(**sample)))
                if not math.isfinite(values[name]):
                    raise ValueError(f"it is {values[name]}")
            except Exception as error:
                raise ComponentError(name) from error
        return {"score": weighted_sum(values, self.weights), **values}
