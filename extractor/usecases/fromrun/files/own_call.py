"""Algorithms of a run's own, called as their own trainer calls them: with a decorator that a project brings along."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from extractor.pipeline.index.syntax import attribute_chain
from extractor.usecases.fromrun.files.needed import with_first
from extractor.values import readers

# The module that has the decorator, and what that is called.
MODULE, NAME = "of_the_run", "of_the_run"
# What a project has at hand for losses and estimators that take it: the names that trainers have for it.
AT_HAND = {
    "entropys": ("entropy", "entropies", "token_entropys", "token_entropy", "token_level_entropy", "old_entropy"),
    "old_log_probs": ("old_log_prob", "token_level_logp"),
    "ref_log_prob": ("ref_log_probs",),
    "rollout_log_probs": ("rollout_log_prob",),
    "response_mask": ("eos_mask",),
    "sum_pi_squared": (),
    "rollout_is_weights": (),
    "token_level_scores": (),
    "responses": (),
    "prompts": (),
    "input_ids": (),
    "attention_mask": (),
    "non_tensor_batch": (),
    "data": (),
    "gamma": (),
    "lam": (),
}
TEXT = '''# vextract:hook  yours: written once, never touched by an upgrade
"""Losses and estimators of the run's own, called as its trainer calls them."""

import copy
import functools
import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict

UNKNOWN = Path(__file__).parents[3] / "config" / "unknown.yaml"
# What losses of before verl 0.6.1 return behind the loss.
MEASURED = ("actor/pg_clipfrac", "actor/ppo_kl", "actor/pg_clipfrac_lower")
# verl's functions that call losses and estimators, and how far they are from those.
CALLERS, FRAMES = ("ppo_loss", "update_policy", "compute_advantage"), 12
# Names that trainers have for the same columns.
SAME: dict[str, tuple[str, ...]] = {
    @SAME@
}
ENGINES = "rollout_log_probs"


def of_the_run(
    section: str, measures: bool = False, whole: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function: it gets the arguments that it takes, and in its config the run's settings of its own.

    What it takes that verl does not pass, it gets where verl's function that calls it has that under the same name.

    Args:
        section: What the `config` that it is given is a part of the run's.
        measures: Whether this project takes a dictionary of metrics behind a loss.
        whole: Whether it expects the run's whole config; of that it gets the section.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        taken = inspect.signature(function).parameters
        every = any(item.kind is item.VAR_KEYWORD for item in taken.values())
        made: list[Any] = [None, None]  # a config, and what became of it

        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            if given.get("rollout_is_weights") is not None and not (every or "rollout_is_weights" in taken):
                raise ValueError(
                    f"{function.__name__} takes no rollout_is_weights: "
                    "algorithm.rollout_correction.rollout_is=null, or give it that argument"
                )
            if given.get("config") is not None:
                if given["config"] is not made[0]:
                    made[:] = given["config"], with_own(given["config"], section)
                    for name in reversed(section.split(".") if whole else ()):
                        made[1] = SimpleNamespace(**{name: made[1]})
                given["config"] = made[1]
            for name, item in list(taken.items())[len(args) :]:
                if name not in given and item.default in (item.empty, None) and item.kind is not item.VAR_KEYWORD:
                    value = at_hand(name, given)
                    if value is not None:
                        given[name] = value
            found = function(*args, **{key: value for key, value in given.items() if every or key in taken})
            if measures and not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict)):
                loss, *more = found if isinstance(found, tuple) else (found,)
                return loss, {name: float(value) for name, value in zip(MEASURED, more, strict=False)}
            return found

        return called

    return decorated


def at_hand(name: str, given: dict[str, Any]) -> Any:
    """Return what verl has for an argument that it does not pass; None: nothing.

    That is a value of the function that calls the loss or the estimator, or a column of the rows that it works on.
    Where the engine's log-probabilities are not at hand, they are the trainer's of before the update.

    Args:
        name: of the argument.
        given: the arguments that it passes.
    """
    known, names = next(((own, (own, *same)) for own, same in SAME.items() if name in (own, *same)), (name, (name,)))
    rows = given.get("advantages", given.get("token_level_rewards"))
    frame, frames = inspect.currentframe(), list[Any]()
    while frame is not None and len(frames) < FRAMES:
        frames.append(frame)
        frame = frame.f_back
    # verl's function, and what calls it: that may hold more columns of the same rows.
    above = list(itertools.dropwhile(lambda each: each.f_code.co_name not in CALLERS, frames))[:3]
    if above and rows is not None:
        for value in (above[0].f_locals.get(same) for same in names):
            if value is not None and (not isinstance(value, torch.Tensor) or value.shape == rows.shape):
                return value
        for frame in above:
            for held in list(frame.f_locals.values()):
                column = column_of(held, names, rows)
                if column is not None:
                    return column
    return given.get("old_log_prob") if known == ENGINES else None


def column_of(held: Any, names: tuple[str, ...], rows: torch.Tensor) -> Any:
    """Return a column of a batch, if its advantages or rewards are `rows`, (bs, response_length)."""
    tensors = getattr(held, "batch", held)
    if not isinstance(tensors, (dict, TensorDict)):
        return None
    beside = next((name for name in ("advantages", "token_level_rewards") if name in tensors.keys()), None)
    if beside is None or not torch.equal(padded(tensors[beside]), rows):
        return None
    others = getattr(held, "non_tensor_batch", {})
    return next((padded(part[name]) for part in (tensors, others) for name in names if name in part.keys()), None)


def padded(column: Any) -> Any:
    """Return a column with rows of one length."""
    is_nested = isinstance(column, torch.Tensor) and column.is_nested
    return torch.nested.to_padded_tensor(column, 0.0) if is_nested else column


def with_own(config: Any, section: str) -> Any:
    """Return a config with the run's settings of a section that no release of verl has."""
    text = UNKNOWN.read_text(encoding="utf-8") if UNKNOWN.is_file() else ""
    own = {key: value for key, value in (yaml.safe_load(text) or {}).items() if key.startswith(f"{section}.")}
    if not own:
        return config
    config = copy.deepcopy(config)
    for key, value in own.items():
        name = key.removeprefix(f"{section}.")
        if isinstance(config, DictConfig):
            OmegaConf.update(config, name, value, force_add=True)
            continue
        *parents, last = name.split(".")
        held = config
        for parent in parents:
            if isinstance(held, dict):
                held = held.setdefault(parent, {})
                continue
            if getattr(held, parent, None) is None:
                object.__setattr__(held, parent, OmegaConf.create())
            held = getattr(held, parent)
        if isinstance(held, (dict, DictConfig)):
            held[last] = value
        else:
            object.__setattr__(held, last, value)  # a dataclass that is not to be changed otherwise
    return config
'''.replace("@SAME@", "\n    ".join(f"{name!r}: {same!r},".replace("'", '"') for name, same in AT_HAND.items() if same))


def at_hand(name: str) -> str | None:
    """Return what a project calls an argument that it has at hand; None: it has it not."""
    return next((own for own, same in AT_HAND.items() if name in (own, *same)), None)


def called_as_here(
    text: str, definition: str, section: str, package: str, given: Collection[str], *, measures: bool, lends: bool
) -> str:
    """Return a module's text with the decorator at a function that a project calls otherwise than its own trainer does.

    Args:
        text: Of the module.
        definition: The function.
        section: What its `config` is a part of the run's.
        package: The module that has the decorator, without its name.
        given: The arguments that the project calls it with.
        measures: Whether the project takes a dictionary of metrics behind a loss.
        lends: Whether it takes what the project has at hand, and does not pass.
    """
    body = readers.python(text).body
    node = next((item for item in body if isinstance(item, ast.FunctionDef) and item.name == definition), None)
    if node is None:
        return text
    taken = {item.arg for item in (*node.args.args, *node.args.kwonlyargs)}
    fits = (node.args.kwarg is not None or taken.issuperset(given)) and not lends
    whole = any(chain[1:2] == (section.partition(".")[0],) for chain, _ in _reads_of_config(text))
    if fits and not whole and not settings_read(text, section) and not (measures and _returns_otherwise(node)):
        return text
    lines = text.split("\n")
    more = (", measures=True" if measures else "") + (", whole=True" if whole else "")
    lines.insert(node.lineno - 1, f'@{NAME}("{section}"{more})')
    return with_first("\n".join(lines), [f"from {package}.{MODULE} import {NAME}"])


def settings_read(text: str, section: str) -> set[str]:
    """Return the settings that a module's functions read of their `config`, by the keys of the run's whole config."""
    whole = section.partition(".")[0]
    return {
        ".".join([*([] if chain[1:2] == (whole,) else [section]), *chain[1:], *([name] if name else [])])
        for chain, name in _reads_of_config(text)
    } - {section}


def _reads_of_config(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what a module's functions read of their `config`: the names from that on, and what it is asked for."""
    for node in ast.walk(readers.python(text)):
        name, chain = "", attribute_chain(node) if isinstance(node, ast.Attribute) else None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            chain, name = attribute_chain(node.func.value), _text(node.args[0])
        elif isinstance(node, ast.Subscript):
            chain, name = attribute_chain(node.value), _text(node.slice)
        chain = tuple(chain or ())
        chain = chain[:-1] if chain[-1:] == ("get",) else chain
        if chain[:1] == ("config",) and (name or len(chain) > 1):
            yield chain, name


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _returns_otherwise(function: ast.FunctionDef) -> bool:
    """Tell whether a loss may return anything else than itself and something behind it."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return not all(isinstance(value, ast.Tuple) and len(value.elts) == 2 for value in values)
