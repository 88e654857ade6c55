"""Algorithms and other choices that a run makes by a name which its project does not know.

An estimator or a policy loss that the run's checkout registers is copied; the others are reported, each with the hook
to register it in and the line of the checkout that knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from extractor.importers.runs.copied_code import managers
from extractor.importers.runs.copied_code.code import python_files, registered_by, required_by, settings_read, tree_of
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject, copied_remarks
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values.errors import UsageError
from extractor.values.setting_types import PATH, types_and_words

_ESTIMATOR = "algorithm.adv_estimator"
_LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
# The settings that choose an algorithm, with what registers one, and what names one without a registry.
_REGISTRIES = {
    _ESTIMATOR: ("register_adv_est", r"(?ms)^class AdvantageEstimator\b(?:(?!^\S).)*?= *[\"']{}[\"']"),
    _LOSS: ("register_policy_loss", r"loss_mode[^\n]*[\"']{}[\"']"),
}
# What a trainer of verl's hands to what it knows by a name alone.
_GIVEN = {
    _ESTIMATOR: {"token_level_rewards", "response_mask", "config", "index"},
    _LOSS: {"old_log_prob", "log_prob", "advantages", "response_mask", "loss_agg_mode", "config", "rollout_is_weights"},
}
_TARGET, _IMPORTED_BY = "custom/verl_algorithms", "custom/algorithms"
# What a setting chooses, and the hook that registers it.
_CHOICES = {
    _ESTIMATOR: ("estimator", _IMPORTED_BY),
    _LOSS: ("policy loss", _IMPORTED_BY),
    **dict.fromkeys(managers.KEYS, ("manager", managers.IMPORTED_BY)),
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
_KNOWS = re.compile(r"reward_manager|register")


def take(project: TargetProject) -> CopyResult:
    """Copy the algorithms that a run chooses and its checkout registers; `custom/algorithms.py` imports them.

    Only what takes what a project gives, and no settings: the others are left to `remarks`.
    """
    texts: dict[str, str] = {}
    remarks: list[Remark] = []
    copying = project.copying()
    for key, (decorator, _) in _REGISTRIES.items():
        name = str(project.settings.get(key) or "")
        if not name or is_known(project.code, key, name) or not project.has(_IMPORTED_BY):
            continue
        registered = re.compile(rf"@(?:\w+\.)*{decorator}\([\"']{re.escape(name)}[\"']")
        files = ((place, text) for place, text in python_files(project.places) if decorator in text and name in text)
        found = next(
            ((place, text, names[0]) for place, text in files if (names := registered_by(text, registered))), None
        )
        if found is None or (key == _LOSS and project.source.release != project.release):
            continue  # what a loss returns changes from release to release
        place, text, definition = found
        nodes = [node for node in tree_of(text).body if getattr(node, "name", "") == definition]
        if {item for node in nodes for item in required_by(node)} - _GIVEN[key]:  # type: ignore[arg-type]
            continue
        try:
            copied = copying.copy(text, [definition], version_of=place)
        except (SyntaxError, UsageError, OSError):
            continue
        if copied.missing or settings_read([copied.text]):
            copying.undo()
            continue
        target = f"{_TARGET}{len(texts) + 1 if texts else ''}"
        texts[target] = copied.text
        remarks += copied_remarks(key, name, place, f"{project.package}/{target}.py", copied)
    if not texts:
        return CopyResult(project.tree)
    files_of = {**{f"{target}.py": text for target, text in texts.items()}, **copying.files}
    return CopyResult(project.with_hooks(files_of, dict.fromkeys(texts, _IMPORTED_BY)), remarks)


def is_known(code: Mapping[str, str], key: str, name: str) -> bool:
    """Tell whether a package has the algorithm of a name: registered, or as a constant that its own code goes by.

    Args:
        code: Its Python files' texts, by path.
        key: The setting that chooses it.
        name: Of the algorithm.
    """
    decorator, chosen_by = _REGISTRIES[key]
    decorated = re.compile(rf"{decorator}\(\s*[\"']{re.escape(name)}[\"']")
    named = re.compile(chosen_by.format(re.escape(name)))
    return any(decorated.search(text) or ("/custom/" not in path and named.search(text)) for path, text in code.items())


def remarks(project: TargetProject) -> Iterator[Remark]:
    """Yield a "to do" for each name that a project does not know: where to register it, and who knows it."""
    for key, (what, hook) in _CHOICES.items():
        name = project.settings.get(key)
        if name is not None and not _is_there(project, key, str(name)):
            why = f"no {what} of this name in the project: register it in {project.package}/{hook}.py"
            yield Remark(key, name, "to do", f"{why}{_place_of(str(name), project)}")
    _, words = types_and_words(project.text_of(PATH))
    for key in _ONE_OF:
        name, values = project.settings.get(key), tuple(map(str, words.get(key, ())))
        if values and isinstance(name, (str, int, float)) and str(name) not in values:
            why = f"verl has no such {key.rpartition('.')[2]}, only {', '.join(values)}"
            yield Remark(key, name, "to do", f"{why}{_place_of(str(name), project)}")


def put_aside(project: TargetProject, before: Mapping[str, Any]) -> tuple[CopyResult, dict[str, Any]]:
    """Put the project's own values in the place of unknown names; returns that, and the names.

    Args:
        project: The project and the run.
        before: The project's config without the run's settings.
    """
    aside = {remark.key: remark for remark in remarks(project)}
    own = {key: managers.PLAIN if key in managers.KEYS else before.get(key) for key in aside}
    said = [Remark(key, item.value, "to do", f"{own[key]} in its place: {item.why}") for key, item in aside.items()]
    return CopyResult(project.tree, said, own), {key: item.value for key, item in aside.items()}


def _is_there(project: TargetProject, key: str, name: str) -> bool:
    if key in managers.KEYS:
        return name in {managers.PLAIN, *managers.AS_NAIVE, *managers.names(project.code)}
    return is_known(project.code, key, name)


def _place_of(name: str, project: TargetProject) -> str:
    """Return the file and line of a run's checkout that knows a name, as the end of a sentence."""
    quoted = re.compile(rf"[\"']{re.escape(name)}[\"']")
    chosen = [
        (not _KNOWS.search(line), f"{place}:{number}")
        for place, text in python_files(project.places)
        if quoted.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if quoted.search(line) and (_KNOWS.search(line) or re.match(r"\s*[A-Z_]+\s*=", line))
    ]
    return f"; the run's checkout names it in {min(chosen)[1]}" if chosen else ""
