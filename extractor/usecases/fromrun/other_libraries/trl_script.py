"""Training scripts of TRL's, read and never run: what they hand to its config and trainer, and what scores for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from extractor.usecases.fromrun.other_libraries import script_models
from extractor.usecases.fromrun.other_libraries.script_calls import (
    WHOLE,
    Write,
    arguments_of,
    attributes_of,
    by_position,
    reached,
    taken,
    writes,
)
from extractor.usecases.fromrun.other_libraries.script_functions import Handed, handed
from extractor.usecases.fromrun.other_libraries.script_names import Known, known_of, name_of
from extractor.usecases.fromrun.other_libraries.script_values import Computed, value_of
from extractor.usecases.fromrun.other_libraries.trl_losses import GRPO, RLOO
from extractor.values import readers
from extractor.values.errors import UsageError

# What of a call's arguments is a setting, by what it is called on the command line.
_LORA = {
    "r": "lora_r",
    "target_modules": "lora_target_modules",
    **{name: name for name in ("lora_alpha", "lora_dropout", "use_rslora", "use_dora", "modules_to_save")},
    **{name: name for name in ("init_lora_weights", "rank_pattern", "alpha_pattern", "exclude_modules")},
}
# Of these calls every argument is, under its own name.
_CONFIGS = ("GRPOConfig", "RLOOConfig", "ModelConfig", "ScriptArguments")
_MODEL = "model_name_or_path"
_TRAINERS = {"GRPOTrainer": GRPO, "RLOOTrainer": RLOO}
_TRAINING = {"GRPOConfig": GRPO, "RLOOConfig": RLOO}
_HANDED = {
    **{name: name for name in ("callbacks", "environment_factory", "eval_dataset", "optimizers", "peft_config")},
    **{name: name for name in ("reward_funcs", "rollout_func", "tools")},
    "model": "model_name_or_path",
    "train_dataset": "dataset_name",
}
# What a trainer takes without naming it, in TRL's order.
_IN_ORDER = ("model", "reward_funcs", "args", "train_dataset", "eval_dataset")
_CALLS: Mapping[str, Mapping[str, str]] = {
    **{name: {} for name in _CONFIGS},
    "GRPOTrainer": _HANDED,
    "RLOOTrainer": {**_HANDED, "policy": "model_name_or_path", "reward_model": "reward_funcs"},
    "LoraConfig": _LORA,
    "get_peft_model": _LORA,
}
# What of vLLM's SamplingParams a run's own settings do not have already; and what a rollout always has in a project.
_DRAWN = ("top_p", "top_k", "min_p", "repetition_penalty")
_ANYHOW = ("bos_token_id", "do_sample", "eos_token_id", "pad_token_id", "use_cache")
# What an adapter is where a script says no more: peft's, and Unsloth's of the models that it loads.
_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_ADAPTERS: Mapping[str, Mapping[str, Any]] = {
    "LoraConfig": {"lora_r": 8, "lora_alpha": 8},
    "get_peft_model": {"lora_r": 16, "lora_alpha": 16, "lora_target_modules": [*_LAYERS]},
}
# What a trainer takes its config as; the second before TRL 0.22.
_ARGS = ("args", "config")
# What reads a config from the command line.
_PARSES = ("ArgumentParser", "TrlParser", "parse_args")
# Makes an adapter of what the command line says.
_BY_FLAGS = "get_peft_config("
# How functions of TRL's own are called that `trl grpo` knows by their names.
_OF_TRL = "_reward"


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
        is_open: Whether the one name may stand for a list of functions; the weights are then of its parts, or one.
    """

    text: str = field(repr=False)
    place: str
    functions: tuple[str, ...]
    weights: tuple[float, ...]
    model: str | None = None
    folder: Path | None = None
    is_open: bool = False


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
        model = self.settings.get("model_name_or_path")
        known = str(model) if model and not isinstance(model, Computed) else None
        return ScoredBy(self.text, self.path.name, self.rewards, numbers, known, self.path.parent, self.is_open)


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


def of_file(file: Path | None, given: Mapping[str, Any]) -> Program | None:
    """Read the training script in a file; None where there is none."""
    try:
        return None if file is None else read(readers.read_text(file), file, given)
    except (OSError, SyntaxError, UsageError):
        return None


def read(text: str, path: Path, given: Mapping[str, Any]) -> Program | None:
    """Read a training script; None where it makes neither a config nor a trainer of TRL's.

    Args:
        text: Of the script.
        path: Of the script.
        given: What its command line says.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = readers.python(text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.bases}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and name_of(node) not in own]
    calls = [by_position(call, _IN_ORDER) if _role(call) in _TRAINERS else call for call in calls]
    names = {_role(call) for call in calls}
    kinds = {**_TRAINING, **_TRAINERS}
    algorithms = [kinds[name] for name in kinds if name in names]
    if not algorithms:
        return None
    known, written = reached(tree, known_of(tree, path, given)), writes(tree)
    calls = taken(tree, calls, [call for call in calls if _role(call) in _TRAINERS], known, _role)
    found = [(call, *_stated(call, known, written)) for call in calls]
    settings = _whole([(_role(call), stated) for call, stated, _ in found])
    scorers = [node for _, _, node in found if node is not None]
    scores = handed(scorers[-1], tree, text, known) if scorers else Handed()
    assigned = dict(_assigned(calls, known, written))
    settings.update(assigned)
    if isinstance(settings.get(_MODEL), Computed):
        handed_over = [item.value for call in calls for item in call.keywords if _handed(call, item) == _MODEL]
        loaded = script_models.loaded(handed_over, calls, known)
        if loaded is not None:
            settings[_MODEL] = loaded
            settings.update(script_models.adapter(tree, known))
    adapter = settings.pop("peft_config", None)
    if any(key.startswith("lora_") for key in settings):
        settings["use_peft"] = True
    elif isinstance(adapter, Computed) and not adapter.startswith(_BY_FLAGS):
        settings["peft_config"] = adapter
    trainers = [name for call in calls if _role(call) in _TRAINERS and (name := name_of(call)) not in _TRAINERS]
    made_by = None if names & _TRAINING.keys() else _made_by(calls, known)
    if scores.model is not None:
        del settings["reward_funcs"]
        settings["reward_model_name_or_path"] = scores.model
    program = Program(settings, scores.functions, made_by, frozenset(known.options), scores.text or text, path)
    trainers += _elsewhere(tree)
    trainer = trainers[0] if trainers else None
    program = replace(program, trainer=trainer, algorithm=algorithms[0], is_open=scores.is_open)
    files = tuple(sorted(known.files))
    return replace(program, names=_reward_names(known), assigned=frozenset(assigned), files=files)


def _stated(
    call: ast.Call, known: Known, written: Mapping[str, Sequence[Write]]
) -> tuple[dict[str, Any], ast.expr | None]:
    """Return the settings that a call states, and what it hands over to score."""
    role, scorer = _role(call), None
    found: dict[str, Any] = {}
    if role in _ADAPTERS and (role == "LoraConfig" or isinstance(call.func, ast.Attribute)):
        found.update(_ADAPTERS[role])
    for name, node in arguments_of(call, known, written) if role in _CALLS else ():
        said = f"{role}(**...)" if name == WHOLE else _CALLS[role].get(name, name if role in _CONFIGS else None)
        if said == "vllm_sampling_params" and (sampling := _sampling(node, known)) is not None:
            found = {**sampling, **found}
        elif said == "generation_kwargs":
            found.update(_generation(call, node, known, written))
        elif said is not None:
            found[said] = Computed(ast.unparse(node)) if name == WHOLE else value_of(node, known)
        scorer = node if said == "reward_funcs" else scorer
    return found, scorer


def _whole(stated: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what calls state together; where two state another each, which of them counts only the script knows."""
    by_trainers = {key: value for role, given in stated if role in _TRAINERS for key, value in given.items()}
    found: dict[str, Any] = {}
    for role, given in stated:
        for key, value in given.items() if role not in _TRAINERS else ():
            is_same = key not in found or found[key] == value
            found[key] = value if is_same else Computed(f"{found[key]} or {value}")
    return {**by_trainers, **found}


def _assigned(
    calls: Sequence[ast.Call], known: Known, written: Mapping[str, Sequence[Write]]
) -> Iterator[tuple[str, Any]]:
    """Yield the settings that a script gives to a config that it has already: `config.beta = 0.1`."""
    configs = {id(call) for call in calls if _role(call) in _TRAINING}
    names = {name for name, node in known.constants.items() if id(node) in configs}
    trainers = [call for call in calls if _role(call) in _TRAINERS]
    handed_over = [item.value for call in trainers for item in call.keywords if item.arg in _ARGS]
    for name in sorted(names.union(item.id for item in handed_over if isinstance(item, ast.Name))):
        yield from ((key, value_of(node, known)) for key, node in attributes_of(name, known, written))


def _role(call: ast.Call) -> str:
    """Return what is called: of a class that a script has made of TRL's trainer or config, TRL's."""
    name = name_of(call)
    return next((known for known in (*_TRAINERS, *_TRAINING) if name.endswith(known)), name)


def _handed(call: ast.Call, argument: ast.keyword) -> str | None:
    """Return the setting that a trainer is handed by an argument; None for other calls."""
    return _CALLS[_role(call)].get(str(argument.arg)) if _role(call) in _TRAINERS else None


def _elsewhere(tree: ast.Module) -> Iterator[str]:
    """Yield trainers under TRL's names that a script imports from another package than TRL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] != "trl"):
            yield from (f"{node.module or '.'}.{item.name}" for item in node.names if item.name in _TRAINERS)


def _made_by(calls: Sequence[ast.Call], known: Known) -> str | None:
    """Return the expression by which trainers get their config, "" if that is read from the command line."""
    given = [item.value for call in calls if _role(call) in _TRAINERS for item in call.keywords if item.arg in _ARGS]
    if not given:
        return None
    if any(name_of(call).endswith(_PARSES) for call in calls):
        return ""
    named = known.constants.get(given[0].id) if isinstance(given[0], ast.Name) else None
    return ast.unparse(named or given[0])


def _reward_names(known: Known) -> tuple[str, ...]:
    """Return what the option `reward_funcs` of a script names."""
    default = known.options.get("reward_funcs")
    value = known.given.get("reward_funcs", None if default is None else value_of(default, known))
    listed = [value] if isinstance(value, str) else value
    return tuple(listed) if isinstance(listed, list) and all(isinstance(item, str) for item in listed) else ()


def _sampling(node: ast.expr, known: Known) -> dict[str, Any] | None:
    """Return what `SamplingParams(...)` says of how tokens are drawn; None where it is not that."""
    if isinstance(node, ast.Name):
        node = known.constants.get(node.id, node)
    if not isinstance(node, ast.Call) or name_of(node) != "SamplingParams":
        return None
    return {str(item.arg): value_of(item.value, known) for item in node.keywords if item.arg in _DRAWN}


def top_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a script defines or imports at its top."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _generation(call: ast.Call, node: ast.expr, known: Known, written: Mapping[str, Sequence[Write]]) -> dict[str, Any]:
    """Return how tokens are drawn by what `generate` or vLLM is given besides: it counts before the settings."""
    whole = ast.copy_location(ast.Call(call.func, [], [ast.keyword(None, node)]), call)
    found: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in arguments_of(whole, known, written):
        if name == WHOLE:
            return {"generation_kwargs": Computed(ast.unparse(node))}
        place = found if name in (*_DRAWN, "temperature") else rest
        place[name] = value_of(value, known)
    rest = {name: value for name, value in rest.items() if name not in _ANYHOW}
    return {**found, "generation_kwargs": rest} if rest else found
