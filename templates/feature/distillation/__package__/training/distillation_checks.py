# vextract:template - edit freely
"""The settings of on-policy distillation, checked before anything is loaded, and what teachers know."""

import contextlib
import io
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf, open_dict

from ..data.toy import ensure_toy_model
from ..errors import ConfigError
from ..run.distributed import Ranks
from ..settings.teacher_models import MODELS, named_teachers
from ..vendored.algorithms.distillation.losses import DISTILLATION_LOSS_REGISTRY
from ..vendored.workers.config.distillation import DistillationLossConfig
from ..workers.models import load_tokenizer

LOSS = "distillation.distillation_loss"
TOY_SEED = 1  # another one than the toy policy's, so that there is something to learn


def check_settings(config: Any) -> None:
    """Check the settings of distillation.

    Raises:
        ConfigError: one is not possible, or does not go with another one.
    """
    section = config.distillation.distillation_loss
    if section.loss_mode not in DISTILLATION_LOSS_REGISTRY:
        known = ", ".join(sorted(DISTILLATION_LOSS_REGISTRY))
        raise ConfigError(f"{LOSS}.loss_mode is {section.loss_mode!r}, which is not registered", f"choose one: {known}")
    warned = io.StringIO()
    try:
        with contextlib.redirect_stdout(warned):
            settings = DistillationLossConfig(**_plain(section)).loss_settings
    except (NotImplementedError, ValueError) as error:
        raise ConfigError(
            f"{LOSS} cannot be used as it is: {error}",
            f"{LOSS}.use_policy_gradient={str(not section.use_policy_gradient).lower()}, or another loss_mode",
        ) from error
    if warned.getvalue() and os.environ.get("RANK", "0") == "0":
        print(f"note: {warned.getvalue().strip().removeprefix('WARNING: ')}", file=sys.stderr)
    if settings.use_topk and section.topk is None:
        raise ConfigError(f"{LOSS}.topk is null", f"{LOSS}.loss_mode={section.loss_mode} needs a number")
    several = len(names_by_key(config)) > 1
    for name, found in named_teachers(config).items():
        if found.get("model_path") is None and (config.actor_rollout_ref.model.path is not None or several):
            raise _no_teacher(name)


def loss_config(config: Any) -> DistillationLossConfig:
    """Return what upstream's losses read of the config, which has been checked."""
    with contextlib.redirect_stdout(io.StringIO()):  # its warning has been given
        return DistillationLossConfig(**_plain(config.distillation.distillation_loss))


def names_by_key(config: Any) -> dict[str | None, str]:
    """Return the teachers' names, by the value of the column `teacher_key` of the rows that each is for.

    A single teacher is for all rows; its key is None.

    Raises:
        ConfigError: teachers do not say which rows each is for.
    """
    found = named_teachers(config)
    if len(found) == 1:
        return dict.fromkeys([None], *found)
    names: dict[str | None, str] = {}
    for name, section in found.items():
        if section.get("key") is None or section.key in names:
            what = "is null" if section.get("key") is None else f"is {section.key!r}, as another teacher's is"
            raise ConfigError(
                f"{MODELS}.{name}.key {what}, and there are {len(found)} teachers",
                f"set it to the value of the column {config.distillation.teacher_key} of the rows that it is for",
            )
        names[section.key] = name
    return names


def settle_toy_teacher(config: Any, ranks: Ranks) -> None:
    """Give a toy policy a teacher of its kind, with other random weights, if the config names none.

    Raises:
        ConfigError: the policy is another model.
    """
    task, directory = config.data.env.task, Path(config.trainer.default_local_dir)
    for name, section in named_teachers(config).items():
        if section.model_path is not None:
            continue
        if Path(config.actor_rollout_ref.model.path) != directory / f"toy_model_{task}":
            raise _no_teacher(name)
        place = directory / f"toy_teacher_{task}"
        section.model_path = str(ranks.on_driver(partial(ensure_toy_model, place, task=task, seed=TOY_SEED)))


def check_vocabularies(config: Any, tokenizer: Any, ranks: Ranks) -> None:
    """Check that each token has the same number in each teacher. Every process must call this.

    Raises:
        ConfigError: one has not, or the teacher has no numbers for tokens that the policy's model may write.
    """
    ours, model = tokenizer.get_vocab(), config.actor_rollout_ref.model
    size, loss = ranks.on_driver(partial(_embedded, model)), loss_config(config)
    if loss.loss_settings.use_topk and loss.topk > size:
        raise ConfigError(f"{LOSS}.topk is {loss.topk}, and the policy has {size} tokens", f"{LOSS}.topk={size}")
    for name, teacher in named_teachers(config).items():
        path, section = teacher.model_path, teacher_section(config, teacher.model_path)
        hint = f"let {MODELS}.{name}.model_path name a model of the policy's family, with the same tokenizer"
        try:
            theirs = load_tokenizer(section, ranks).get_vocab()
            rows = ranks.on_driver(partial(_embedded, section))
        except (ConfigError, OSError, ValueError) as error:
            raise ConfigError(f"the teacher cannot be read: {error}", f"check {MODELS}.{name}.model_path") from error
        other = next((token for token in sorted(ours, key=ours.__getitem__) if theirs.get(token) != ours[token]), None)
        if other is not None:
            there = "is not there" if other not in theirs else f"has number {theirs[other]} there"
            raise ConfigError(
                f"the teacher {path} has another vocabulary than the policy: {other!r} {there}, and {ours[other]} here",
                hint,
            )
        if rows < size:
            raise ConfigError(f"the teacher {path} knows {rows} tokens, and the policy may write {size}", hint)


def teacher_section(config: Any, path: str) -> Any:
    """Return the `model` section of a teacher: the policy's, without what is about the policy's own weights."""
    section = OmegaConf.create(OmegaConf.to_container(config.actor_rollout_ref.model, resolve=True))
    with open_dict(section):
        section.path = path
        section.override_config = {
            name: value for name, value in section.override_config.items() if name == "attn_implementation"
        }
    return section


def _no_teacher(name: str) -> ConfigError:
    return ConfigError(
        f"{MODELS}.{name}.model_path is null: there is no teacher to learn from",
        "name a model with the policy's vocabulary there",
    )


def _embedded(model: Any) -> int:
    """Return how many tokens a model has logits of, by its config.json; some of them may be no token's."""
    from transformers import AutoConfig

    found = AutoConfig.from_pretrained(model.path, trust_remote_code=model.trust_remote_code)
    return int(found.get_text_config().vocab_size)


def _plain(section: Any) -> dict[str, Any]:
    node: Any = OmegaConf.to_container(section, resolve=True)
    return dict(node)
