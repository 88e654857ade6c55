# vextract:template - edit freely
"""Advantage estimators and policy losses by name: this release of verl has no registries itself.

`core_algos` offers the functions that hooks register with as well (see shims/registries.py), as in later releases.
"""

from collections.abc import Callable
from typing import Any

from .shims import registries as in_core_algos
from .vendored.algorithms import trainer_functions
from .vendored.algorithms.core_algos import compute_policy_loss
from .vendored.algorithms.trainer_functions import AdvantageEstimator
from .vendored.protocol import DataProto

Estimator = Callable[..., Any]
PolicyLoss = Callable[..., Any]

# What stands for verl's own estimators is only there to be found.
ADV_ESTIMATOR_REGISTRY: dict[str, Estimator] = {
    estimator.value: trainer_functions.compute_advantage for estimator in AdvantageEstimator
}
# What `loss_mode` can name: this release's actor calls no other loss.
POLICY_LOSS_REGISTRY: dict[str, PolicyLoss] = {"vanilla": compute_policy_loss}
_own: set[str] = set()
_own_losses: dict[str, PolicyLoss] = {}


def register_adv_est(name: str) -> Callable[[Estimator], Estimator]:
    """Make a function the advantage estimator `name`, as a decorator.

    It is called as those of later releases are: with token_level_rewards and response_mask, (bs, response_length),
    index, (bs,), and config, the `algorithm` section; it returns advantages and returns, (bs, response_length).

    Raises:
        ValueError: another function has the name.
    """

    def decorator(estimator: Estimator) -> Estimator:
        if ADV_ESTIMATOR_REGISTRY.setdefault(name, estimator) is not estimator:
            raise ValueError(f"advantage estimator {name!r} is registered already")
        _own.add(name)
        return estimator

    return decorator


def register_policy_loss(name: str) -> Callable[[PolicyLoss], PolicyLoss]:
    """Note a policy loss under a name, for `get_policy_loss_fn`, as a decorator; `loss_mode` cannot choose it here."""

    def decorator(loss: PolicyLoss) -> PolicyLoss:
        _own_losses[name] = loss
        return loss

    return decorator


def get_adv_estimator_fn(name: str) -> Estimator:
    """Return the advantage estimator `name`.

    Raises:
        ValueError: there is none.
    """
    if name not in ADV_ESTIMATOR_REGISTRY:
        raise ValueError(f"there is no advantage estimator {name!r}")
    return ADV_ESTIMATOR_REGISTRY[name]


def get_policy_loss_fn(name: str) -> PolicyLoss:
    """Return the policy loss that is registered as `name`, or else this release's only one, whose form all share."""
    return _own_losses.get(name, compute_policy_loss)


def compute_advantage(data: DataProto, adv_estimator: str, config: Any = None, **settings: Any) -> DataProto:
    """Add `advantages` and `returns`, (bs, response_length), to the batch: by your estimator of the name, or verl's."""
    estimator = ADV_ESTIMATOR_REGISTRY.get(str(adv_estimator))
    if estimator is None or str(adv_estimator) not in _own:
        result: DataProto = trainer_functions.compute_advantage(data, adv_estimator, **settings)
        return result
    data.batch["advantages"], data.batch["returns"] = estimator(
        token_level_rewards=data.batch["token_level_rewards"],
        response_mask=data.batch["response_mask"],
        index=data.non_tensor_batch["uid"],
        config=config,
    )
    return data


def _register_what_waits() -> None:
    """Register what core_algos has registered itself; what it has for verl's own names the trainer calls anyway."""
    for register, name, function in in_core_algos.waiting:
        if register == "register_policy_loss":
            register_policy_loss(name)(function)
        elif name not in ADV_ESTIMATOR_REGISTRY:
            register_adv_est(name)(function)


_register_what_waits()
