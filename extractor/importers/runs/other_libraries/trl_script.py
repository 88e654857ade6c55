"""Training scripts of TRL's, read and never run: what they hand to its config and trainer, and what scores for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extractor.importers.runs.files import Places
from extractor.importers.runs.other_libraries.translation import ScoredBy
from extractor.importers.runs.other_libraries.trl_losses import GRPO
from extractor.importers.runs.other_libraries.trl_trainer import (
    BESIDE,
    MODEL,
    NOTED,
    TRAINERS,
    TRAINING,
    Trained,
    adapters,
    of_configs,
    plain,
    role,
    whole,
)
from extractor.importers.runs.python import reach
from extractor.importers.runs.python.follower import Follower
from extractor.importers.runs.python.given import Given
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.scorers import Handed
from extractor.importers.runs.python.states import text_of
from extractor.importers.runs.python.syntax import declared, last_of
from extractor.importers.runs.python.values import Computed
from extractor.values import readers
from extractor.values.errors import UsageError

# How functions of TRL's own are called that `trl grpo` knows by their names.
_OF_TRL = "_reward"
# What reads a config from the command line.
_PARSES = ("ArgumentParser", "TrlParser", "parse_args")


@dataclass(frozen=True)
class Program:
    """A training script, as far as it can be read.

    Attributes:
        settings: By their names on the command line; `Computed` where only the script knows.
        rewards: Names of the functions that score; (): not known.
        made_by: Where it does not make its GRPOConfig itself, the expression that it gets it by, or "" if its command
            line says all; None: it makes it, or has TRL make one.
        trainer: The class of its trainer, where it is one of its own.
        names: Of reward functions, as it has them unless its command says otherwise.
        options: Names of the options of its own that its command line has.
        text: Of the script.
        path: Of the script.
        algorithm: That of its trainer.
        is_open: Whether the one name among the rewards may stand for a list of functions.
        assigned: The settings that it gives to its config itself, whatever its command line says.
        files: Config files that settings are from, as it names them.
        scorers: The functions, where they are not those of its text.
    """

    settings: Mapping[str, Any]
    rewards: tuple[str, ...]
    made_by: str | None
    options: frozenset[str]
    text: str = field(repr=False)
    path: Path
    trainer: str | None = None
    names: tuple[str, ...] = ()
    algorithm: str = GRPO
    is_open: bool = False
    assigned: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    scorers: Given | None = None

    def scored_by(self, weights: Any) -> ScoredBy | None:
        """Return what scores, with the weights that the run states; None where that is not known."""
        if not self.rewards:
            return None
        count = len(self.rewards)
        given = [1.0] * count if weights is None else [weights] if isinstance(weights, (int, float)) else weights
        if not isinstance(given, list) or (len(given) != count and not self.is_open):
            return None  # which counts how much is not known
        try:
            numbers = tuple(float(weight) for weight in given)
        except (TypeError, ValueError):
            return None
        model = self.settings.get(MODEL)
        known = str(model) if model and not isinstance(model, Computed) else None
        if self.scorers is None:
            return ScoredBy(self.text, self.path.name, self.rewards, numbers, known, self.path.parent, self.is_open)
        found = self.scorers
        return ScoredBy(found.text, found.path.name, self.rewards, numbers, known, found.folder)


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
    program = Program({}, functions, None, frozenset(), "\n".join(dict.fromkeys(lines)) + "\n", Path("reward_funcs"))
    return None if len(set(functions)) < len(functions) else program.scored_by(weights)


def of_file(file: Path | None, given: Mapping[str, Any], words: Sequence[str] = ()) -> Program | None:
    """Read the training script in a file; None where there is none.

    Args:
        file: The script.
        given: What its command line says.
        words: The same, as it is written.
    """
    try:
        return None if file is None else read(readers.read_text(file), file, given, words)
    except (OSError, SyntaxError, UsageError):
        return None


def options_of(file: Path | None) -> frozenset[str]:
    """Return the names of the options that the script in a file declares itself; none where there is no script."""
    try:
        return frozenset() if file is None else frozenset(dict(declared(readers.python(readers.read_text(file)))))
    except (OSError, SyntaxError, UsageError):
        return frozenset()


def read(text: str, path: Path, given: Mapping[str, Any], words: Sequence[str] | None = None) -> Program | None:
    """Read a training script; None where it makes neither a config nor a trainer of TRL's.

    Args:
        text: Of the script.
        path: Of the script.
        given: What its command line says.
        words: The same, as it is written; None: it is brought without a command.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = readers.python(text)
    options = dict(declared(tree))
    places = Places.of(path, None) if path.is_file() else None
    if not _may_train(text, path, places):
        return None
    for everywhere in (False, True):
        run = Follower(tree, path, given, places, NOTED, (tuple(TRAINERS), tuple(TRAINING)), words, everywhere)
        run.follow()
        trainers = [event for event in run.events if role(event) in TRAINERS]
        configs = [event for event in run.events if role(event) in TRAINING]
        if trainers or configs:
            break
    else:
        return None
    kinds = {**TRAINING, **TRAINERS}
    found = [Trained(event, run) for event in trainers]
    settings = whole([item.settings(configs) for item in found] or [of_configs(configs, run.state), adapters(run)])
    settings |= whole([plain(event.made.named, event.state) for event in run.events if role(event) in BESIDE])
    assigned = whole([item.assigned() for item in found])
    scorer = next((item for item in reversed(found) if item.scorer is not None), None)
    scores = Handed() if scorer is None else scorer.scores(text)
    is_other = scorer is not None and scorer.count not in (None, len(scores.functions))
    is_open = scorer is not None and scores.model is None and (scores.is_open or is_other or not scores.functions)
    known = scorer.known_scorers(text) if scorer is not None and is_open else None
    if is_other and known is None and not scores.is_open and scores.model is None:
        scores = Handed()
    if scores.model is not None:
        settings.pop("reward_funcs", None)
        settings["reward_model_name_or_path"] = scores.model
    made_by = None if configs else _made_by(found, tree)
    named = [last_of(event.of.partition(":")[0]) for event in trainers]
    own = [name for name in named if name not in TRAINERS] + [*_elsewhere(tree)]
    return Program(
        {**settings, **assigned},
        scores.functions if known is None else known.functions,
        made_by,
        frozenset(options),
        scores.text or text,
        path,
        own[0] if own else None,
        _reward_names(options.get("reward_funcs"), run),
        next(kinds[role(event)] for event in (*trainers, *configs)),
        scores.is_open and known is None,
        frozenset(assigned),
        tuple(sorted(run.files)),
        known,
    )


def _may_train(text: str, path: Path, places: Places | None) -> bool:
    """Tell whether a script, or a module of its repository that it reaches, names what is looked for."""
    return any(name in whole for whole in reach.texts(text, path, places) for name in (*TRAINERS, *TRAINING))


def _elsewhere(tree: ast.Module) -> Iterator[str]:
    """Yield trainers under TRL's names that a script imports from another package than TRL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] != "trl"):
            yield from (f"{node.module or '.'}.{item.name}" for item in node.names if item.name in TRAINERS)


def _made_by(trained: Sequence[Trained], tree: ast.Module) -> str | None:
    """Return the expression by which trainers get their config, "" if that is read from the command line."""
    configs = [(item.config, item.event.state) for item in trained if item.config is not None]
    if not configs:
        return None
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    is_parsed = any(item.made is not None and item.made.is_parsed for item in trained)
    if is_parsed or any(name.endswith(_PARSES) for name in calls):
        return ""
    return text_of(*configs[0])


def _reward_names(default: ast.expr | None, run: Run) -> tuple[str, ...]:
    """Return what the option `reward_funcs` of a script names."""
    value = run.given.get("reward_funcs", None if default is None else run.value_in(default))
    listed = [value] if isinstance(value, str) and not isinstance(value, Computed) else value
    return tuple(listed) if isinstance(listed, list) and all(isinstance(item, str) for item in listed) else ()


def top_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a script defines or imports at its top."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
