# vextract:template
"""Several scores of one response, and the weights that make them one reward."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..episodes.places import has_failed
from ..switches import EPISODES
from .scoring import ScoringError, source_of, to_builtin


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
                values[name] = float(to_builtin(function(**sample)))
                if not math.isfinite(values[name]):
                    raise ValueError(f"it is {values[name]}")
            except Exception as error:
                raise ComponentError(name) from error
        return {"score": weighted_sum(values, self.weights), **values}


def weighted_sum(components: Mapping[str, Any], weights: Mapping[str, float], source: Any = None) -> float:
    """Return the reward of a sample: each weighted component times its weight, summed.

    Args:
        components: name -> value, None where the sample has none; those without a weight are only reported.
        weights: name -> weight.
        source: where the sample is from, which an error names.

    Raises:
        ValueError: a weight names no component, or its component is not a number.
    """
    total = 0.0
    for name, weight in weights.items():
        value = components.get(name)
        if isinstance(value, str) or value is None:
            known = ", ".join(key for key, other in components.items() if not isinstance(other, str | None))
            at = "" if source is None else f"data source {source!r}: "
            raise ValueError(f"{at}no component named {name!r}, which has the weight {weight}; components: {known}")
        total += weight * float(to_builtin(value))
    return total


def weighted_rewards(
    weights: Mapping[str, float],
    components: Mapping[str, list[Any]],
    sources: Iterable[Any],
    columns: Mapping[str, Any],
    function: Any,
) -> list[float]:
    """Return the rewards of a batch: see `weighted_sum`.

    Args:
        weights: name -> weight.
        components: name -> a value for each sample.
        sources: where each sample is from.
        columns: of the batch.
        function: what has scored it.

    Raises:
        ScoringError: a sample lacks a component that has a weight.
    """
    rewards = []
    for row, source in enumerate(sources):
        values, given = {name: column[row] for name, column in components.items()}, weights
        if EPISODES and has_failed(columns, row):  # its environment reports nothing
            given = {name: weight for name, weight in weights.items() if values.get(name) is not None}
        try:
            rewards.append(weighted_sum(values, given, source))
        except ValueError as error:
            raise ScoringError(str(error), source_of(function), row) from error
    return rewards
