"""Training scripts for TRL: the literal arguments of their config and their trainer. Nothing is run or followed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

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
_WHOLE = "**"
_HANDED = {
    **{name: name for name in ("callbacks", "environment_factory", "eval_dataset", "optimizers", "rollout_func")},
    **{name: name for name in ("reward_funcs", "tools", _WHOLE)},
    "train_dataset": "dataset_name",
}
# peft's names of an adapter's settings; what it has by default; and what makes one of the command's options.
_LORA = {"r": "lora_r", "lora_alpha": "lora_alpha", "target_modules": "lora_target_modules"}
_LORA_DEFAULTS = {"lora_r": 8, "lora_alpha": 8}
_BY_OPTIONS = "get_peft_config"
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
    reading = _ScriptReader(readers.python(text), path, given)
    trainers = reading.trainers()
    if not trainers:
        return None
    if len(trainers) > 1:
        lines = ", ".join(str(call.lineno) for call in trainers)
        raise UsageError(f"{path}: it makes a trainer in lines {lines}", hint="pass the settings of one as YAML")
    return reading.script(trainers[0], text)


class _ScriptReader:
    """The names and calls of one script."""

    def __init__(self, tree: ast.Module, path: Path, given: Mapping[str, Any]) -> None:
        self.tree, self.path, self.given = tree, path, given
        self.nodes = list(ast.walk(tree))
        self.used: set[str] = set()
        bound = Counter(name for node in self.nodes for name in _bound(node))
        changed = {node.value.id for node in self.nodes if _may_change(node) and isinstance(node.value, ast.Name)}
        self.names: dict[str, ast.expr] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, is_kept = node.targets[0].id, not isinstance(node.value, (ast.List, ast.Dict))
                if bound[name] == 1 and (is_kept or name not in changed):
                    self.names[name] = node.value
        imports = [node for node in self.nodes if isinstance(node, ast.ImportFrom)]
        self.imported = {
            alias.asname or alias.name: f"{'.' * node.level}{node.module or ''}"
            for node in imports
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
        kind, name = self._kind(call) or "", ast.unparse(call.func)
        handed = {**dict(zip(_IN_ORDER, call.args, strict=False)), **_keywords(call)}
        config = self._meant(handed.get("args"))
        parses = config is not None and not _is_call(config, _CONFIGS)
        if parses and not any(_is_call(node, _PARSERS) for node in self.nodes):
            raise UsageError(
                f"{self.path}:{call.lineno}: its config is no call of {kind.replace('Trainer', 'Config')} that is here",
                hint="pass its settings as YAML, under TRL's names",
            )
        is_trls = name.rpartition(".")[2] == kind and self._module(call).partition(".")[0] in ("trl", "")
        settings = {} if parses or not isinstance(config, ast.Call) else self._settings(config)
        return Script(
            path=self.path,
            text=text,
            algorithm=_TRAINERS[kind],
            settings={**self._handed(handed), **self._adapter(handed), **settings},
            assigned=dict(self._assigned(handed.get("args"))),
            used=frozenset(self.used),
            parses=parses,
            trainer="" if is_trls else f"{self._module(call)}.{name}".strip("."),
            rewards=self._rewards(handed.get("reward_funcs")),
        )

    def _settings(self, config: ast.Call) -> dict[str, Any]:
        """Return the arguments of a config."""
        found = {name: self._literal(node) for name, node in _keywords(config).items() if name != _WHOLE}
        if config.args or _WHOLE in _keywords(config):
            found[f"{ast.unparse(config.func)}(**...)"] = self._unread(config)
        return found

    def _handed(self, handed: Mapping[str, ast.expr]) -> dict[str, Any]:
        """Return what of a trainer's arguments is a setting or has to be supplied."""
        found: dict[str, Any] = {_HANDED[name]: self._unread(node) for name, node in handed.items() if name in _HANDED}
        model = self._meant(handed.get("model"))
        if isinstance(model, ast.Call) and _is_call(model, ("from_pretrained",)) and model.args:
            model = model.args[0]
        if model is not None:
            found[MODEL] = self._literal(model)
        judge = self._literal(handed["reward_funcs"]) if "reward_funcs" in handed else None
        if isinstance(judge, str) and not isinstance(judge, Unread):
            found["reward_model_name_or_path"] = judge
            del found["reward_funcs"]
        return found

    def _adapter(self, handed: Mapping[str, ast.expr]) -> dict[str, Any]:
        """Return the adapter's settings; the model may have had one before the trainer gets it."""
        node = self._meant(handed.get("peft_config"))
        if node is None:
            own = [item for item in self.nodes if _is_call(item, ("get_peft_model",))]
            return {"peft_config": self._unread(own[0])} if own else {}
        if isinstance(node, ast.Call) and _is_call(node, ("LoraConfig",)):
            named = {_LORA.get(name, name): self._literal(value) for name, value in _keywords(node).items()}
            return {"use_peft": True, **_LORA_DEFAULTS, **named, "task_type": None}
        return {} if _is_call(node, (_BY_OPTIONS,)) else {"peft_config": self._unread(node)}

    def _rewards(self, given: ast.expr | None) -> tuple[str, ...]:
        """Return the names of functions that score, if all are defined at the script's top."""
        node = self._meant(given)
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [] if node is None else [node]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        at_top = ([item] if isinstance(item, definitions) else ast.walk(item) for item in self.tree.body)
        top = {name for items in at_top for item in items for name in _bound(item)}
        defined = {name for item in self.nodes if not isinstance(item, ast.Name) for name in _bound(item)}
        is_known = all(name in top and (name in defined or name in self.names) for name in names)
        return tuple(names) if len(names) == len(parts) and is_known else ()

    def _assigned(self, config: ast.expr | None) -> Iterator[tuple[str, Any]]:
        """Yield what the script gives to its config after that was made: its order is not followed."""
        held = "" if config is None else ast.unparse(config)
        for node in self.nodes:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == held:
                yield target.attr, self._unread(node)
            elif isinstance(node, ast.Call) and _is_call(node, ("setattr",)) and ast.unparse(node.args[0]) == held:
                yield "setattr(...)", self._unread(node)

    def _meant(self, node: ast.expr | None) -> ast.expr | None:
        """Return what a name stands for that is assigned once; other expressions as they are."""
        return self.names.get(node.id, node) if isinstance(node, ast.Name) else node

    def _literal(self, given: ast.expr) -> Any:
        """Return a literal, one that a name stands for, or an option of the command; `Unread` otherwise."""
        node = self._meant(given) or given
        if isinstance(node, ast.Attribute) and node.attr in self.given and isinstance(node.value, ast.Name):
            self.used.add(node.attr)
            return self.given[node.attr]
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return self._unread(node)

    def _unread(self, node: ast.AST) -> Unread:
        return Unread(f"{ast.unparse(node)} ({self.path.name}:{getattr(node, 'lineno', 1)})")


def _may_change(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Subscript]:
    """Tell whether an expression may change the list or dict that it is of: `names.append`, `names[0] = ...`."""
    return isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load))


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
