"""Training scripts of TRL's, read and never run: what they hand to its config and trainer, and what scores for them."""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extractor.values import readers
from extractor.values.errors import UsageError

# What of a call's arguments is a setting, by what it is called on the command line; of GRPOConfig's every one is.
_LORA = {
    "r": "lora_r",
    "target_modules": "lora_target_modules",
    **{name: name for name in ("lora_alpha", "lora_dropout", "use_rslora", "use_dora", "modules_to_save")},
    **{name: name for name in ("init_lora_weights", "rank_pattern", "alpha_pattern", "exclude_modules")},
}
_CALLS: Mapping[str, Mapping[str, str]] = {
    "GRPOConfig": {},
    "GRPOTrainer": {"model": "model_name_or_path", "reward_funcs": "reward_funcs", "train_dataset": "dataset_name"},
    "LoraConfig": _LORA,
    "get_peft_model": _LORA,
}
# What of vLLM's SamplingParams a run's own settings do not have already.
_DRAWN = ("top_p", "top_k", "min_p", "repetition_penalty")
# What an adapter is where a script says no more: peft's, and Unsloth's of the models that it loads.
_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_ADAPTERS: Mapping[str, Mapping[str, Any]] = {
    "LoraConfig": {"lora_r": 8, "lora_alpha": 8},
    "get_peft_model": {"lora_r": 16, "lora_alpha": 16, "lora_target_modules": [*_LAYERS]},
}
# A model that a script loads itself, and hands over as an object.
_LOADS, _NAMED = "from_pretrained", ("model_name", "pretrained_model_name_or_path")
_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
# Names that follow each other.
_DEEPEST = 20
# How functions of TRL's own are called that `trl grpo` knows by their names.
_OF_TRL = "_reward"


class Computed(str):
    """The text of an expression that only the script knows the value of."""


@dataclass(frozen=True)
class _Known:
    """Holds what a script's names stand for.

    Attributes:
        constants: Those that get a value once, with it.
        options: Those of its command line, with their defaults; None: an option without one.
        given: What its command line says.
    """

    constants: Mapping[str, ast.expr]
    options: Mapping[str, ast.expr | None]
    given: Mapping[str, Any]


@dataclass(frozen=True)
class ScoredBy:
    """The functions that score a run's responses.

    Attributes:
        text: Of the file that defines or imports them.
        place: That file, for messages.
        functions: Their names.
        weights: What the score of each counts.
        model: The model of the run, where the script says it.
        folder: Where the file's own imports are found; None: where the run's are.
    """

    text: str = field(repr=False)
    place: str
    functions: tuple[str, ...]
    weights: tuple[float, ...]
    model: str | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class Program:
    """A training script, as far as it can be read.

    Attributes:
        settings: By their names on the command line; `Computed` where only the script knows.
        rewards: Names of the functions that score; (): not known.
        makes_config: Whether it makes its GRPOConfig itself; otherwise its command line says all.
        options: Names of the options of its own that its command line has.
        text: Of the script.
        path: Of the script.
    """

    settings: Mapping[str, Any]
    rewards: tuple[str, ...]
    makes_config: bool
    options: frozenset[str]
    text: str = field(repr=False)
    path: Path

    def scored_by(self, weights: Any) -> ScoredBy | None:
        """Return what scores, with the weights that the run states; None where that is not known."""
        if not self.rewards:
            return None
        count = len(self.rewards)
        given = weights if isinstance(weights, list) and len(weights) == count else [1.0] * count
        try:
            numbers = tuple(float(weight) for weight in given)
        except (TypeError, ValueError):
            return None
        model = self.settings.get("model_name_or_path")
        known = str(model) if model and not isinstance(model, Computed) else None
        return ScoredBy(self.text, self.path.name, self.rewards, numbers, known, self.path.parent)


def named(names: Any, weights: Any) -> ScoredBy | None:
    """Return what scores where a run names it for `trl grpo`: functions of TRL's own, or dotted paths of modules.

    Args:
        names: One, or a list.
        weights: As many numbers, or None.
    """
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        return None
    if not all("." in item or item.endswith(_OF_TRL) for item in listed):
        return None
    parts = [item.rpartition(".") for item in listed]
    if not all(part.isidentifier() for before, _, name in parts for part in (*filter(None, before.split(".")), name)):
        return None
    lines = [f"from {before or 'trl.rewards'} import {name}" for before, _, name in parts]
    functions = tuple(name for _, _, name in parts)
    program = Program({}, functions, False, frozenset(), "\n".join(dict.fromkeys(lines)) + "\n", Path("reward_funcs"))
    return None if len(set(functions)) < len(functions) else program.scored_by(weights)


def of_file(file: Path | None, given: Mapping[str, Any]) -> Program | None:
    """Read the training script in a file; None where there is none."""
    try:
        return None if file is None else read(readers.read_text(file), file, given)
    except (OSError, SyntaxError, UsageError):
        return None


def read(text: str, path: Path, given: Mapping[str, Any]) -> Program | None:
    """Read a training script; None where it makes neither a GRPOConfig nor a GRPOTrainer.

    Args:
        text: Of the script.
        path: Of the script.
        given: What its command line says.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = readers.python(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {_name(call) for call in calls}
    if not names & {"GRPOConfig", "GRPOTrainer"}:
        return None
    known = _Known(_constants(tree), dict(_options(tree)), given)
    settings: dict[str, Any] = {}
    rewards: tuple[str, ...] = ()
    for call in calls:
        name = _name(call)
        if name == "LoraConfig" or (
            name == "get_peft_model" and call.keywords and isinstance(call.func, ast.Attribute)
        ):
            settings.update(_ADAPTERS[name])
        for keyword in call.keywords if name in _CALLS else ():
            said = _CALLS[name].get(str(keyword.arg), keyword.arg if name == "GRPOConfig" else None)
            if said == "vllm_sampling_params" and (sampling := _sampling(keyword.value, known)) is not None:
                settings = {**sampling, **settings}
            elif said is not None:
                settings[said] = _value(keyword.value, known)
            if said == "reward_funcs":
                rewards = _functions(keyword.value, known, tree)
    if isinstance(settings.get("model_name_or_path"), Computed):
        loaded = _loaded(calls, known)
        if loaded is not None:
            settings["model_name_or_path"] = loaded
    if any(key.startswith("lora_") for key in settings):
        settings["use_peft"] = True
    return Program(settings, rewards, "GRPOConfig" in names, frozenset(known.options), text, path)


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the names that get a value once, with it."""
    given: dict[str, ast.expr] = {}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = Counter(node.id for node in names if isinstance(node.ctx, ast.Store))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            given[node.target.id] = node.value
    return {name: value for name, value in given.items() if bound[name] == 1}


def _options(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the options of a script's command line, by argparse or as fields of dataclasses, with their defaults."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node) == "add_argument":
            flags = [item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            stated = {item.arg: item.value for item in node.keywords}
            default = stated.get("default")
            if default is None and isinstance(action := stated.get("action"), ast.Constant):
                default = ast.Constant(False) if action.value == "store_true" else None
            for flag in flags:
                yield flag.lstrip("-").replace("-", "_"), default
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(item) for item in node.decorator_list):
            for field_ in node.body:
                if isinstance(field_, ast.AnnAssign) and isinstance(field_.target, ast.Name):
                    yield field_.target.id, _default(field_.value)


def _default(node: ast.expr | None) -> ast.expr | None:
    """Return the default of a dataclass's field: itself, or what `field(default=...)` says."""
    if isinstance(node, ast.Call) and _name(node) == "field":
        return next((item.value for item in node.keywords if item.arg == "default"), None)
    return node


def _value(node: ast.expr, known: _Known) -> Any:
    """Return the value of an expression, or its text."""
    try:
        return _worked_out(node, known, 0)
    except (ValueError, TypeError, SyntaxError, ArithmeticError, MemoryError, RecursionError):
        return Computed(ast.unparse(known.constants.get(node.id, node) if isinstance(node, ast.Name) else node))


def _worked_out(node: ast.expr, known: _Known, depth: int) -> Any:
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(node, ast.Name) and node.id in known.constants:
        return _worked_out(known.constants[node.id], known, depth + 1)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in known.options:
        if node.attr in known.given:
            return known.given[node.attr]
        default = known.options[node.attr]
        if default is None:
            raise ValueError(f"{node.attr} has no default")
        return _worked_out(default, known, depth + 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        sides = [_worked_out(side, known, depth + 1) for side in (node.left, node.right)]
        if all(isinstance(side, (int, float)) for side in sides):
            return _OPERATIONS[type(node.op)](*sides)
    if isinstance(node, ast.List):
        return [_worked_out(item, known, depth + 1) for item in node.elts]
    return ast.literal_eval(node)


def _functions(node: ast.expr, known: _Known, tree: ast.Module) -> tuple[str, ...]:
    """Return the names of functions in a list of them, or of the one; () where it holds anything else."""
    if isinstance(node, ast.Name) and node.id in known.constants:
        node = known.constants[node.id]
    items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    names = [item.id for item in items if isinstance(item, ast.Name)]
    there = set(top_names(tree))
    is_plain = len(names) == len(items) and len(set(names)) == len(names) and set(names) <= there
    return tuple(names) if is_plain else ()


def _sampling(node: ast.expr, known: _Known) -> dict[str, Any] | None:
    """Return what `SamplingParams(...)` says of how tokens are drawn; None where it is not that."""
    if isinstance(node, ast.Name):
        node = known.constants.get(node.id, node)
    if not isinstance(node, ast.Call) or _name(node) != "SamplingParams":
        return None
    return {str(item.arg): _value(item.value, known) for item in node.keywords if item.arg in _DRAWN}


def top_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a script defines or imports at its top."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _loaded(calls: Sequence[ast.Call], known: _Known) -> str | None:
    """Return the model that a script loads; None where it loads none, several, or one that is not known."""
    found = set()
    for call in calls:
        owner = ast.unparse(call.func)
        if not owner.endswith(f".{_LOADS}") or "Model" not in owner:
            continue
        given = [*call.args[:1], *(item.value for item in call.keywords if item.arg in _NAMED)]
        found |= {_value(node, known) for node in given}
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, str) and not isinstance(only, Computed) else None
