"""What a config chooses by a word: whether a release of verl knows it, or a hook of the project registers it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import name_in
from extractor.importers.config.project import ProjectConfig
from extractor.importers.config.release import Defaults, Target
from extractor.values import readers
from extractor.values.errors import UsageError

_Flat = Mapping[str, Any]
_TRAINER = "verl/trainer/ppo/ray_trainer.py"
# Up to 0.5.0 the trainer knows by the estimator's name alone whether there is a critic, and stops at unknown ones.
_BY_NAME = re.compile(
    r"adv_estimator in \[[^\]]*\]:\s*self\.use_critic = False\s*else:\s*raise NotImplementedError", re.DOTALL
)


@dataclass(frozen=True)
class Choice:
    """A setting whose value is one of some words.

    Attributes:
        what: It chooses.
        names: Of settings and variables that code compares with these words.
        registers: Decorators, classes and lists that have them. A hook may use the decorators.
        needs: The setting that has to be on for it to matter; "": none.
        plain: What a release does that has no such setting.
    """

    what: str
    names: tuple[str, ...] = ()
    registers: tuple[str, ...] = ()
    needs: str = ""
    plain: str = ""


_ACTOR, _CRITIC, _CORRECTION = "actor_rollout_ref.actor", "critic", "algorithm.rollout_correction"
_ESTIMATOR = "algorithm.adv_estimator"
_LOSSES = Choice("way to put the losses of tokens together", ("loss_agg_mode",))
_SCHEDULE = Choice("schedule of the learning rate", ("warmup_style", "lr_scheduler_type"))
_KL = "estimator of the KL divergence"
CHOICES = {
    _ESTIMATOR: Choice("advantage estimator", ("adv_estimator",), ("register_adv_est", "AdvantageEstimator")),
    f"{_ACTOR}.policy_loss.loss_mode": Choice(
        "policy loss", ("loss_mode",), ("register_policy_loss",), plain="vanilla"
    ),
    f"{_ACTOR}.loss_agg_mode": _LOSSES,
    f"{_CRITIC}.loss_agg_mode": _LOSSES,
    f"{_ACTOR}.kl_loss_type": Choice(_KL, ("kl_penalty",), needs=f"{_ACTOR}.use_kl_loss"),
    "algorithm.kl_penalty": Choice(_KL, ("kl_penalty",), needs="algorithm.use_kl_in_reward"),
    "algorithm.kl_ctrl.type": Choice("course of the KL coefficient", ("type",), needs="algorithm.use_kl_in_reward"),
    **{
        f"{section}.optim.{name}": _SCHEDULE
        for section in (_ACTOR, _CRITIC)
        for name in ("warmup_style", "lr_scheduler_type")
    },
    "data.truncation": Choice("way to cut prompts", ("truncation",)),
    "trainer.logger": Choice("tracker", registers=("supported_backend",)),
    f"{_CORRECTION}.rollout_is": Choice("importance weight of rollouts", ("rollout_is",)),
    f"{_CORRECTION}.rollout_rs": Choice("rejection of rollouts", ("rollout_rs",), ("SUPPORTED_ROLLOUT_RS_OPTIONS",)),
    f"{_CORRECTION}.loss_type": Choice("loss", ("loss_type",), needs=f"{_CORRECTION}.bypass_mode"),
    "distillation.distillation_loss.loss_mode": Choice(
        "loss of distillation", registers=("register_distillation_loss",), needs="distillation.enabled"
    ),
}


def check(
    project: Path,
    package: str,
    config: ProjectConfig,
    target: Target,
    defaults: Defaults,
    renamed: Callable[[str], str | None],
) -> list[str]:
    """Check that a release knows the words that a config chooses by, or that hooks register them.

    Returns:
        What a user should know of those that hooks register.

    Raises:
        UsageError: it does not: verl would stop at the first step, or train by another loss.
    """
    remarks: list[str] = []
    hooks = [readers.read_text(project / path) for path in readers.python_below(project, f"{package}/custom")]
    for key, choice in CHOICES.items():
        for word in _chosen(key, choice, config.flat):
            name = name_in(key, defaults, renamed)
            if word == choice.plain or (name is None and not choice.registers):
                continue  # what becomes of a key that the release has not is another matter
            if (name is not None and defaults.flat.get(name) == word) or _knows(target, choice, word):
                continue
            by_hook = any(re.search(rf"[\"']{re.escape(word)}[\"']", text) for text in hooks)
            if not by_hook or not choice.registers:
                raise UsageError(
                    f"{key}={word}: verl {target.release} has no such {choice.what}"
                    + (", and no hook registers one" if choice.registers else ""),
                    hint=f"{_with_usual_word(key, choice, name, defaults)}, or --verl with a release that has it",
                )
            if key == _ESTIMATOR and target.has(_TRAINER) and _BY_NAME.search(target.source.read(_TRAINER)):
                remarks.append(
                    f"{key}={word}: the trainer of verl {target.release} stops at an estimator that is not its own; "
                    "later releases, from 0.6.0 on, take it"
                )
    return remarks


def _with_usual_word(key: str, choice: Choice, name: str | None, defaults: Defaults) -> str:
    """Write the option that sets a key to the word that a release has by default."""
    usual = defaults.flat.get(name) if name is not None else None
    if isinstance(usual, list):
        return f"--set '{key}=[console]'"
    word = usual if isinstance(usual, str) else choice.plain
    return f"--set {key}={word}" if word else f"another {choice.what}"


def _chosen(key: str, choice: Choice, flat: _Flat) -> Iterator[str]:
    """Yield the words that a setting has, where it matters."""
    value = flat.get(key)
    is_used = not choice.needs or bool(flat.get(choice.needs))
    if is_used and not (key.startswith(f"{_CRITIC}.") and flat.get(_ESTIMATOR) != "gae"):
        for word in value if isinstance(value, list) else [value]:
            yield from [part.strip() for part in word.split(",")] if isinstance(word, str) else ()


def _knows(target: Target, choice: Choice, word: str) -> bool:
    """Tell whether a release's code has a word: among those that it compares this setting with, if it does so."""
    known = target.words(choice.names, choice.registers)
    if not known:
        return target.says(word)
    return word in known or (word.endswith("+") and {"+", word[:-1]} <= known)
