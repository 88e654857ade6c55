"""Training scripts for TRL: the literal arguments of their config and their trainer. Nothing is run or followed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extractor.importers.runs.other_libraries.translation import ScoredBy
from extractor.importers.runs.other_libraries.trl_settings import GRPO, RLOO, Unread
from extractor.values import readers
from extractor.values.errors import UsageError

MODEL = "model_name_or_path"
_MAY_TRAIN = re.compile(r"\b(?:GRPO|RLOO)Trainer\b")
_TRAINERS = {"GRPOTrainer": GRPO, "RLOOTrainer": RLOO}
_CONFIGS = ("GRPOConfig", "RLOOConfig")
# What a trainer takes without naming it, in TRL's order, and what of it is a setting.
_IN_ORDER = ("model", "reward_funcs", "args", "train_dataset", "eval_dataset")
_HANDED = ("callbacks", "environment_factory", "eval_dataset", "optimizers", "peft_config", "rollout_func", "tools")
# peft's names of an adapter's settings; what it has by default; and what makes one of the command's options.
_LORA = {"r": "lora_r", "lora_alpha": "lora_alpha", "target_modules": "lora_target_modules"}
_LORA_DEFAULTS = {"lora_r": 8, "lora_alpha": 8}
_BY_OPTIONS = "get_peft_config("
_WHOLE = "**"
_PARSERS = ("HfArgumentParser", "TrlParser", "ArgumentParser")


@dataclass(frozen=True)
class Script:
    """A training script, as far as its literals tell.

    Attributes:
        path: Of the script.
        text: Of the script.
        algorithm: That of its trainer.
        settings: Of its config and trainer, by TRL's names; `Unread` where they are no literals.
        assigned: Settings that it gives to its config after that was made.
        used: Options of its command that its config has.
        parses: Whether its config is made of its command's options.
        trainer: The class of its trainer, where that is no class of TRL's; "": it is.
        rewards: Names of the functions that score; (): not known.
    """

    path: Path
    text: str = field(repr=False)
    algorithm: str
    settings: Mapping[str, Any]
    assigned: Mapping[str, Any]
    used: frozenset[str]
    parses: bool
    trainer: str
    rewards: tuple[str, ...]

    def scored_by(self, weights: Any) -> ScoredBy | None:
        """Return what scores, with the weights that the run states; None where that is not known."""
        model = self.settings.get(MODEL)
        known = None if model is None or isinstance(model, Unread) else str(model)
        return scored(self.text, self.path, self.rewards, weights, known, self.path.parent)


def scored(
    text: str, path: Path, names: Sequence[str], weights: Any, model: str | None, folder: Path | None
) -> ScoredBy | None:
    """Return functions of a text and their weights; None where which counts how much is not known."""
    given = [1.0] * len(names) if weights is None else weights if isinstance(weights, list) else [weights]
    numbers = [weight for weight in given if isinstance(weight, (int, float)) and not isinstance(weight, bool)]
    if not names or len(set(names)) < len(names) or not len(names) == len(numbers) == len(given):
        return None
    return ScoredBy(text, path.name, tuple(names), tuple(map(float, numbers)), model, folder)


def read(text: str, path: Path, given: Mapping[str, Any]) -> Script | None:
    """Read a script; None where it makes no trainer of TRL's.

    Args:
        text: Of the script.
        path: Of the script.
        given: The options of its command, which it may have as `args.NAME`.

    Raises:
        SyntaxError: it is no Python.
        UsageError: which settings it trains with cannot be read.
    """
    if _MAY_TRAIN.search(text) is None:
        return None
    reading = _Reading(readers.python(text), path, given)
    trainers = reading.trainers()
    if not trainers:
        return None
    if len(trainers) > 1:
        lines = ", ".join(str(call.lineno) for call in trainers)
        raise UsageError(f"{path}: it makes a trainer in lines {lines}", hint="pass the settings of one as YAML")
    return reading.script(trainers[0], text)


class _Reading:
    """The names and calls of one script."""

    def __init__(self, tree: ast.Module, path: Path, given: Mapping[str, Any]) -> None:
        self.tree, self.path, self.given = tree, path, given
        self.nodes = list(ast.walk(tree))
        self.used: set[str] = set()
        bound = Counter(name for node in self.nodes for name in _bound(node))
        assigned = [(node.targets[0], node.value) for node in self.nodes if isinstance(node, ast.Assign)]
        self.names = {to.id: value for to, value in assigned if isinstance(to, ast.Name) and bound[to.id] == 1}
        self.imported = {
            alias.asname or alias.name: f"{'.' * node.level}{node.module or ''}"
            for node in self.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def trainers(self) -> list[ast.Call]:
        """Return the calls that make a trainer of TRL's, or of a class of the script's own."""
        calls = (node for node in self.nodes if isinstance(node, ast.Call))
        return [call for call in calls if self._kind(call) is not None and not self._module(call).startswith("verl")]

    def _module(self, call: ast.Call) -> str:
        """Return the module that a called class is imported from; "": none."""
        return self.imported.get(ast.unparse(call.func).partition(".")[0], "")

    def _kind(self, call: ast.Call) -> str | None:
        """Return the trainer of TRL's that a call makes; None: none."""
        own = {node.name: [*map(ast.unparse, node.bases)] for node in self.nodes if isinstance(node, ast.ClassDef)}
        name = ast.unparse(call.func).rpartition(".")[2]
        return next((kind for kind in _TRAINERS for one in (name, *own.get(name, ())) if one.endswith(kind)), None)

    def script(self, call: ast.Call, text: str) -> Script:
        """Return what a trainer is made with."""
        kind = self._kind(call) or ""
        handed = {**dict(zip(_IN_ORDER, call.args, strict=False)), **_keywords(call)}
        config, holder = handed.get("args"), handed.get("args")
        config = self.names.get(config.id, config) if isinstance(config, ast.Name) else config
        parses = not _is_call(config, _CONFIGS) and config is not None
        if parses and not any(_is_call(node, _PARSERS) for node in self.nodes):
            raise UsageError(
                f"{self.path}:{call.lineno}: its config is no call of {kind.replace('Trainer', 'Config')} that is here",
                hint="pass its settings as YAML, under TRL's names",
            )
        settings = self._settings(config) if isinstance(config, ast.Call) and not parses else {}
        name, is_trls = ast.unparse(call.func), self._module(call).partition(".")[0] in ("trl", "")
        return Script(
            self.path,
            text,
            _TRAINERS[kind],
            {**self._model(handed), **self._handed(handed), **settings},
            dict(self._assigned(holder)),
            frozenset(self.used),
            parses,
            ""
            if name.endswith(f".{kind}") or (name == kind and is_trls)
            else f"{self._module(call)}.{name}".strip("."),
            self._rewards(handed.get("reward_funcs")),
        )

    def _settings(self, config: ast.Call) -> dict[str, Any]:
        found = {name: self._literal(node) for name, node in _keywords(config).items() if name != _WHOLE}
        if config.args or _WHOLE in _keywords(config):
            found[f"{ast.unparse(config.func)}(**...)"] = self._unread(config)
        return found

    def _handed(self, handed: Mapping[str, ast.expr]) -> dict[str, Any]:
        """Return what of a trainer's arguments is a setting or has to be supplied."""
        found: dict[str, Any] = {
            name: self._unread(node) for name, node in handed.items() if name in (*_HANDED, _WHOLE)
        }
        if "train_dataset" in handed:
            found["dataset_name"] = self._unread(handed["train_dataset"])
        if "reward_funcs" in handed:
            found["reward_funcs"] = self._unread(handed["reward_funcs"])
            value = self._literal(handed["reward_funcs"])
            if isinstance(value, str) and not isinstance(value, Unread):
                del found["reward_funcs"]
                found["reward_model_name_or_path"] = value
        adapter = self._adapter(found, handed)
        return {**found, **adapter}

    def _adapter(self, found: dict[str, Any], handed: Mapping[str, ast.expr]) -> dict[str, Any]:
        """Return the adapter's settings; the model may have had one before the trainer gets it."""
        node = handed.get("peft_config")
        node = self.names.get(node.id, node) if isinstance(node, ast.Name) else node
        own = [item for item in self.nodes if _is_call(item, ("get_peft_model",))]
        if node is not None and ast.unparse(node).startswith(_BY_OPTIONS):
            del found["peft_config"]
        elif isinstance(node, ast.Call) and _is_call(node, ("LoraConfig",)):
            del found["peft_config"]
            named = {_LORA.get(name, name): self._literal(value) for name, value in _keywords(node).items()}
            return {
                "use_peft": True,
                **_LORA_DEFAULTS,
                **{key: value for key, value in named.items() if key != "task_type"},
            }
        elif node is None and own:
            return {"peft_config": self._unread(own[0])}
        return {}

    def _model(self, handed: Mapping[str, ast.expr]) -> dict[str, Any]:
        node = handed.get("model")
        node = self.names.get(node.id, node) if isinstance(node, ast.Name) else node
        if isinstance(node, ast.Call) and _is_call(node, ("from_pretrained",)) and node.args:
            node = node.args[0]
        return {} if node is None else {MODEL: self._literal(node)}

    def _rewards(self, node: ast.expr | None) -> tuple[str, ...]:
        """Return the names of functions that score, if all are defined at the script's top."""
        node = self.names.get(node.id, node) if isinstance(node, ast.Name) else node
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [] if node is None else [node]
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        parts_of = ([node] if isinstance(node, definitions) else ast.walk(node) for node in self.tree.body)
        top = {name for statement in parts_of for part in statement for name in _bound(part)}
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        return tuple(names) if len(names) == len(parts) and top.issuperset(names) else ()

    def _assigned(self, holder: ast.expr | None) -> Iterator[tuple[str, Any]]:
        """Yield `config.name = value` of the config that the trainer gets: its order is not followed."""
        held = "" if holder is None else ast.unparse(holder)
        for node in self.nodes:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == held:
                yield target.attr, self._unread(node)

    def _literal(self, node: ast.expr) -> Any:
        """Return a literal, one that a name stands for, or an option of the command; `Unread` otherwise."""
        if isinstance(node, ast.Name) and node.id in self.names:
            node = self.names[node.id]
        if isinstance(node, ast.Attribute) and node.attr in self.given and isinstance(node.value, ast.Name):
            self.used.add(node.attr)
            return self.given[node.attr]
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return self._unread(node)

    def _unread(self, node: ast.AST) -> Unread:
        return Unread(f"{ast.unparse(node)} ({self.path.name}:{getattr(node, 'lineno', 1)})")


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    """Return a call's keyword arguments, and what it is handed as a whole."""
    return {item.arg or _WHOLE: item.value for item in call.keywords}


def _is_call(node: ast.AST | None, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds, by whatever way."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
