"""The trainers and configs of TRL's that a script makes, and what they are handed: settings, and what scores."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extractor.importers.runs.other_libraries.trl_losses import GRPO, RLOO
from extractor.importers.runs.other_libraries.trl_settings import KNOWN
from extractor.importers.runs.python import models
from extractor.importers.runs.python.given import Given, given_to_score
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.scorers import Handed, handed
from extractor.importers.runs.python.states import Event, State, plain_of, text_of
from extractor.importers.runs.python.syntax import last_of
from extractor.importers.runs.python.values import Computed, Either, Items, Listed, Made

# What of a call's arguments is a setting, by what it is called on the command line.
_LORA = {
    "r": "lora_r",
    "target_modules": "lora_target_modules",
    **{name: name for name in ("lora_alpha", "lora_dropout", "use_rslora", "use_dora", "modules_to_save")},
    **{name: name for name in ("init_lora_weights", "rank_pattern", "alpha_pattern", "exclude_modules")},
}
MODEL = "model_name_or_path"
TRAINERS = {"GRPOTrainer": GRPO, "RLOOTrainer": RLOO}
TRAINING = {"GRPOConfig": GRPO, "RLOOConfig": RLOO}
_HANDED = {
    **{name: name for name in ("callbacks", "environment_factory", "eval_dataset", "optimizers", "peft_config")},
    **{name: name for name in ("reward_funcs", "rollout_func", "tools")},
    "model": MODEL,
    "train_dataset": "dataset_name",
}
# What a trainer takes without naming it, in TRL's order.
_IN_ORDER = ("model", "reward_funcs", "args", "train_dataset", "eval_dataset")
_OF_RLOO = {"policy": MODEL, "reward_model": "reward_funcs"}
# What of vLLM's SamplingParams a run's own settings do not have already; and what a rollout always has in a project.
_DRAWN = ("top_p", "top_k", "min_p", "repetition_penalty")
_ANYHOW = ("bos_token_id", "do_sample", "eos_token_id", "pad_token_id", "use_cache")
# What an adapter is where a script says no more: peft's, and Unsloth's of the models that it loads.
_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_ADAPTERS: Mapping[str, Mapping[str, Any]] = {
    "LoraConfig": {"lora_r": 8, "lora_alpha": 8},
    "get_peft_model": {"lora_r": 16, "lora_alpha": 16, "lora_target_modules": [*_LAYERS]},
}
_LOADS = "from_pretrained"
BESIDE = ("ModelConfig", "ScriptArguments")
NOTED = (*TRAINERS, *TRAINING, *BESIDE, *_ADAPTERS, _LOADS)
# What a trainer takes its config as; the second before TRL 0.22.
_ARGS = ("args", "config")
# Makes an adapter of what the command line says.
_BY_FLAGS = "get_peft_config("


@dataclass(frozen=True)
class Trained:
    """A trainer that a script makes, and what it is handed.

    Attributes:
        event: Where it is made.
        run: The script.
    """

    event: Event
    run: Run

    @property
    def given(self) -> Items:
        """Return its arguments by name."""
        made = self.event.made
        return Items({**dict(zip(_IN_ORDER, made.given, strict=False)), **made.named.items}, made.named.nodes)

    @property
    def config(self) -> Any:
        """Return what it gets for a config; None: nothing."""
        return next((self.given.items[name] for name in _ARGS if name in self.given.items), None)

    @property
    def made(self) -> Made | None:
        """Return its config, as far as it is one of TRL's."""
        found = self.event.state.of(self.config)
        return found if isinstance(found, Made) and (found.is_parsed or _kind(found, self.run) is not None) else None

    def settings(self, configs: Sequence[Event]) -> dict[str, Any]:
        """Return what it is trained by.

        Args:
            configs: Those that the script makes: it may get any, where what it gets is not known.
        """
        state, found = self.event.state, self.made
        if found is not None:
            stated = _by_its_class(found, state) if found.is_parsed else _settings(found, state)
        elif self.config is None:
            stated = {}
        else:
            stated = of_configs(configs, state)
        names = {**_HANDED, **(_OF_RLOO if role(self.event) == "RLOOTrainer" else {})}
        over: dict[str, Any] = {}
        for name, value in self.given.items.items():
            if name in names:
                over[names[name]] = plain_of(value, state, self.given.nodes.get(name))
        if not self.event.made.named.is_whole:
            over[f"{role(self.event)}(**...)"] = _handed_whole(self.event.node)
        of_model, adapter = self._model(over), self._adapter(over)
        return {**over, **stated, **of_model, **adapter}

    def assigned(self) -> dict[str, Any]:
        """Return what it gets that the script has given to its config itself, after it was made."""
        found = self.made
        return {} if found is None else plain(found.attributes, self.event.state)

    @property
    def _scores_by(self) -> tuple[str, ...]:
        """Return the names of the argument that scores."""
        return ("reward_funcs", "reward_model") if role(self.event) == "RLOOTrainer" else ("reward_funcs",)

    @property
    def scorer(self) -> ast.expr | None:
        """Return what it is handed to score, as it is written."""
        index = _IN_ORDER.index("reward_funcs")
        by_name = [self.given.nodes[name] for name in self._scores_by if name in self.given.nodes]
        return by_name[0] if by_name else next(iter(self.event.node.args[index : index + 1]), None)

    @property
    def _scoring(self) -> Any:
        """Return what it gets to score; None: nothing."""
        return next((self.given.items[name] for name in self._scores_by if name in self.given.items), None)

    def scores(self, text: str) -> Handed:
        """Return what scores, as far as it can be written down.

        Args:
            text: Of the script.
        """
        tree, whole = self.run.trees.get(self.event.scope.path, (self.run.tree, text))
        assert self.scorer is not None
        return handed(self.scorer, tree, whole, self.run)

    @property
    def count(self) -> int | None:
        """Return how many functions it gets; None where only the script knows."""
        found = self.event.state.of(self._scoring)
        return len(found.items) if isinstance(found, Listed) and found.is_whole else None

    def known_scorers(self, text: str) -> Given | None:
        """Return what scores, by what it gets; None where that cannot be written down.

        Args:
            text: Of the script.
        """
        value = self._scoring
        return None if value is None else given_to_score(value, self.event.state, self.run, text)

    def _model(self, over: dict[str, Any]) -> dict[str, Any]:
        value = next((self.given.items[name] for name in ("model", "policy") if name in self.given.items), None)
        if not isinstance(over.pop(MODEL, None), Computed):
            return {} if value is None else {MODEL: plain_of(value, self.event.state)}
        above = itertools.takewhile(lambda event: event is not self.event, self.run.events)
        before = [event for event in above if role(event) == _LOADS]
        state = self.event.state
        name = models.loaded(value, state, before)
        found = {MODEL: Computed(text_of(value, state)) if name is None else name}
        adapter = models.adapter(value, state, before)
        return found if adapter is None else {**found, "adapter": adapter}

    def _adapter(self, over: dict[str, Any]) -> dict[str, Any]:
        """Return the adapter that is trained: handed over, or put into the model before that."""
        state = self.event.state
        value, unknown = self.given.items.get("peft_config"), over.pop("peft_config", None)
        for part in value.parts if isinstance(value, Either) else (value,):
            made = state.of(part)
            if isinstance(made, Made) and last_of(made.of) == "LoraConfig":
                return _lora(made, state)
        chain = [*models.came_from(self.given.items.get("model"), state)]
        for item in chain:
            if last_of(item.of) == "get_peft_model" and (by_name := _lora(item, state)):
                return by_name
            inside = [state.of(part) for part in (*item.given, *item.named.items.values())]
            for part in inside:
                if isinstance(part, Made) and last_of(part.of) == "LoraConfig":
                    return _lora(part, state)
        is_open = isinstance(unknown, Computed) and not unknown.startswith(_BY_FLAGS)
        is_unknown = is_open or (not chain and isinstance(self.given.items.get("model"), Computed))
        if is_unknown and (stated := adapters(self.run)):
            return stated
        return {"peft_config": unknown} if is_open else {}


def _settings(made: Made, state: State) -> dict[str, Any]:
    """Return the settings that a config is made with; of generation's and vLLM's what a rollout is drawn by."""
    found: dict[str, Any] = {}
    drawn: dict[str, Any] = {}
    for name, value in made.named.items.items():
        if name == "vllm_sampling_params" and (sampling := _sampling(value, state)) is not None:
            drawn |= {key: item for key, item in sampling.items() if key not in made.named.items}
        elif name == "generation_kwargs":
            drawn |= _generation(value, state, made.named.nodes.get(name))
        else:
            found[name] = plain_of(value, state, made.named.nodes.get(name))
    if not made.named.is_whole:
        found[f"{last_of(made.of)}(**...)"] = _handed_whole(made.node)
    return {**_by_its_class(made, state), **found, **drawn}


def _by_its_class(made: Made, state: State) -> dict[str, Any]:
    """Return what a script's own class of configs has otherwise than TRL's, as far as it means something here."""
    found = plain(made.defaults, state)
    own = {name: value for name, value in found.items() if name in KNOWN and name not in made.named.items}
    return {name: value for name, value in own.items() if value is not None and not isinstance(value, Computed)}


def _handed_whole(node: ast.expr) -> Computed:
    """Return what a call is handed as a whole, `**settings`."""
    whole = [item.value for item in getattr(node, "keywords", ()) if item.arg is None]
    return Computed(", ".join(map(ast.unparse, whole)) or ast.unparse(node))


def of_configs(configs: Sequence[Event], state: State) -> dict[str, Any]:
    """Return what all configs say that a script makes."""
    found = []
    for event in configs:
        made = state.of(event.ref)
        made = made if isinstance(made, Made) else event.made
        found.append({**_settings(made, state), **plain(made.attributes, state)})
    return whole(found)


def plain(items: Items, state: State) -> dict[str, Any]:
    """Return items as Python has them, by name; `Computed` where only the script knows."""
    return {str(name): plain_of(value, state, items.nodes.get(name)) for name, value in items.items.items()}


def adapters(run: Run) -> dict[str, Any]:
    """Return what all adapters say that a script makes."""
    events = [event for event in run.events if role(event) in _ADAPTERS]
    return whole([_lora(event.made, event.state) for event in events])


def _lora(made: Made, state: State) -> dict[str, Any]:
    """Return the settings of an adapter; none of a call that is handed a config instead."""
    items = made.named.items
    if last_of(made.of) == "get_peft_model" and not any(
        name in items for name in ("r", "target_modules", "lora_alpha")
    ):
        return {}
    stated = {
        _LORA[name]: plain_of(value, state, made.named.nodes.get(name))
        for name, value in items.items()
        if name in _LORA
    }
    return {"use_peft": True, **_ADAPTERS[last_of(made.of)], **stated}


def whole(stated: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is stated together; where two state another each, which of them counts only the script knows."""
    found: dict[str, Any] = {}
    for given in stated:
        for key, value in given.items():
            is_same = key not in found or (found[key] == value and type(found[key]) is type(value))
            found[key] = value if is_same else Computed(f"{found[key]} or {value}")
    return found


def role(event: Event) -> str:
    """Return what is called: of a class that a script has made of TRL's trainer or config, TRL's; "": one of verl's."""
    if event.of.startswith("verl."):
        return ""
    name = last_of(event.of.rpartition(":")[2])
    return next((known for known in NOTED if name.endswith(known)), name)


def _kind(made: Made, run: Run) -> str | None:
    """Return which of TRL's configs an object is; None: it is none."""
    base = "" if made.kind is None else run.base_of(made.kind) or ""
    names = (last_of(made.of), last_of(base))
    return next((known for known in TRAINING if any(name.endswith(known) for name in names)), None)


def _sampling(value: Any, state: State) -> dict[str, Any] | None:
    """Return what `SamplingParams(...)` says of how tokens are drawn; None where it is not that."""
    made = state.of(value)
    if not isinstance(made, Made) or last_of(made.of) != "SamplingParams":
        return None
    return {name: item for name, item in plain(made.named, state).items() if name in _DRAWN}


def _generation(value: Any, state: State, node: ast.expr | None) -> dict[str, Any]:
    """Return how tokens are drawn by what `generate` or vLLM is given besides: it counts before the settings."""
    made = state.of(value)
    if not isinstance(made, Items) or not made.is_whole:
        return {} if value is None else {"generation_kwargs": plain_of(value, state, node)}
    stated = plain(made, state)
    found = {name: item for name, item in stated.items() if name in (*_DRAWN, "temperature")}
    # What a rollout has anyhow is what its tokenizer says; another token is another end.
    own = [name for name, item in stated.items() if name.endswith("_id") and not isinstance(item, Computed)]
    left = [name for name in stated if name not in found and (name not in _ANYHOW or name in own)]
    rest = {name: stated[name] for name in left}
    return {**found, "generation_kwargs": rest} if rest else found
