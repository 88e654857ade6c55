"""Handle algorithm and manager names that a project does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from extractor.importers.config.keys import REWARD_MANAGER
from extractor.importers.runs.copied_code import managers
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values.setting_types import PATH, read_types_and_words

# The settings that choose an algorithm: what it is called, what registers one, and what names one without a registry.
_REGISTRIES = {
    "algorithm.adv_estimator": (
        "estimator",
        "register_adv_est",
        r"(?ms)^class AdvantageEstimator\b(?:(?!^\S).)*?= *[\"']{}[\"']",
    ),
    "actor_rollout_ref.actor.policy_loss.loss_mode": (
        "policy loss",
        "register_policy_loss",
        r"loss_mode[^\n]*[\"']{}[\"']",
    ),
}
# What a project takes one of few values for.
_ONE_OF = (
    "actor_rollout_ref.actor.kl_loss_type",
    "actor_rollout_ref.actor.loss_agg_mode",
    "actor_rollout_ref.actor.optim.lr_scheduler_type",
    "actor_rollout_ref.actor.optim.warmup_style",
    "algorithm.kl_ctrl.type",
    "algorithm.kl_penalty",
    "data.truncation",
)


def is_known(code: Mapping[str, str], key: str, name: str) -> bool:
    """Tell whether a package's code knows an algorithm by this name.

    Args:
        code: Its Python files' texts, by path.
        key: The setting that chooses it.
        name: Of the algorithm.
    """
    _, decorator, chosen_by = _REGISTRIES[key]
    decorated = re.compile(rf"{decorator}\(\s*[\"']{re.escape(name)}[\"']")
    named = re.compile(chosen_by.format(re.escape(name)))
    return any(decorated.search(text) or ("/custom/" not in path and named.search(text)) for path, text in code.items())


def remark_on_unknown(project: TargetProject) -> Iterator[Remark]:
    """Yield a "to do" for each choice unknown to the project."""
    known = {managers.PLAIN, *managers.AS_NAIVE, *managers.list_names(project.code)}
    for key in (*_REGISTRIES, *REWARD_MANAGER):
        name, is_manager = project.settings.get(key), key in REWARD_MANAGER
        if name is None or (name in known if is_manager else is_known(project.code, key, str(name))):
            continue
        what, hook = ("manager", managers.IMPORTED_BY) if is_manager else (_REGISTRIES[key][0], "custom/algorithms")
        why = f"no {what} of this name in the project: register it in {project.package}/{hook}.py"
        yield Remark(key, name, "to do", f"{why}")
    _, words = read_types_and_words(project.text_of(PATH))
    for key in _ONE_OF:
        name, values = project.settings.get(key), tuple(map(str, words.get(key, ())))
        if values and isinstance(name, (str, int, float)) and str(name) not in values:
            why = f"verl has no such {key.rpartition('.')[2]}, only {', '.join(values)}"
            yield Remark(key, name, "to do", f"{why}")


def put_aside(project: TargetProject, before: Mapping[str, Any]) -> tuple[CopyResult, dict[str, Any]]:
    """Replace unknown names by the project's values; return both.

    Args:
        project: The project and the run.
        before: The project's config without the run's settings.
    """
    aside = {remark.key: remark for remark in remark_on_unknown(project)}
    own = {key: managers.PLAIN if key in REWARD_MANAGER else before.get(key) for key in aside}
    said = [Remark(key, item.value, "to do", f"{own[key]} in its place: {item.why}") for key, item in aside.items()]
    return CopyResult(project.tree, said, own), {key: item.value for key, item in aside.items()}
