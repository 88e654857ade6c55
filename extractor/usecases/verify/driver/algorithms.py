"""What cases do with estimators of advantages and policy losses."""

from typing import Any

from .calling import compute
from .inputs import CORE, SETTINGS, VALUES, find_estimators, make_actor_config
from .sides import Side

_CORRECTION = {"loss_type", "rollout_is", "rollout_rs", "rollout_rs_threshold"}


def estimate(side: Side, estimator: str, **given: Any) -> Any:
    """Return what an estimator computes."""
    return compute(find_estimators(side)[estimator], available=VALUES, **given)


def lose(
    side: Side,
    loss: str,
    *,
    form: str = "mapping",
    known: dict[str, Any] | None = None,
    function: str = "",
    losing: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **given: Any,
) -> Any:
    """Return a policy loss and its gradient.

    Args:
        form: Of the configuration: "mapping" or "dataclass".
        known: What a process knows of the batch that its rows are a part of, in releases that ask for it.
        function: Its name, of a loss that is not taken from the registry.
        losing: Settings of the loss.
        settings: Others of the actor's.
        given: Arguments of the loss; in a mapping, also how rollouts are corrected.
    """
    if form == "mapping":
        settings = {"global_batch_info": {}, **(settings or {})}
        correction = {**SETTINGS["rollout_correction"], **{key: given.pop(key) for key in _CORRECTION & given.keys()}}
        losing = {"rollout_correction": correction, **(losing or {})}
    made = make_actor_config(side, form, losing={"loss_mode": loss, **(losing or {})}, **(settings or {}))
    if hasattr(made, "global_batch_info"):
        made.global_batch_info.update(known or {})
    found = side.get(f"{CORE}:{function}") if function else side.get(f"{CORE}:get_policy_loss_fn")(loss)
    return compute(found, available=VALUES, **{"config": made, **given})
