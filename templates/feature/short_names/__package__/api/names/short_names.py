# vextract:template - edit freely
"""Short names of settings: one table, of which simple trainers and their docstrings are made.

Each field below is a short name, what it means and the keys of the config that it stands for. A field that is None says
nothing: the config decides.
"""

import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from ...errors import ConfigError
from ...settings.flags import as_overrides
from ...settings.setting import nearest

GRPO, PPO = "grpo", "ppo"  # presets
ACTOR, ROLLOUT, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
NOTHING = object()  # what a value converts to that stands for no setting
Class = TypeVar("Class", bound=type)


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Short:
    """Holds what a short name stands for.

    Attributes:
        meaning: in a few words.
        keys: are set to the value.
        follow: are set too, unless something else sets them.
        switch: a key that is true where the value is above 0.
        convert: gives the keys' value from that of the name.
    """

    meaning: str
    keys: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()
    switch: str = ""
    convert: Callable[[Any], Any] = _same

    def __str__(self) -> str:
        keys = [*self.keys, *self.follow, *filter(None, [self.switch])]
        return f"{self.meaning} ({', '.join(keys)})" if keys else self.meaning


def short(
    meaning: str,
    *keys: str,
    follow: Sequence[str] = (),
    switch: str = "",
    convert: Callable[[Any], Any] = _same,
    ppo: Short | None = None,
) -> Any:
    """Declare a field: see `Short`; `ppo` is what it stands for in PPO, if that is something else."""
    grpo = Short(meaning, keys, tuple(follow), switch, convert)
    return field(default=None, metadata={GRPO: grpo, PPO: ppo or grpo})


class ShortNames:
    """Settings under short names. What derives from it is a dataclass.

    Attributes:
        chooses_preset: whether the settings name the preset as well.
    """

    chooses_preset: ClassVar[bool] = True

    def overrides(self, preset: str, further: Iterable[str] = ()) -> list[str]:
        """Return the settings as overrides of the config.

        Args:
            preset: grpo or ppo; it is chosen, unless `further` chooses one.
            further: overrides that stand behind them.

        Raises:
            ConfigError: a value has no meaning, or two of them contradict each other.
        """
        further = list(further)
        stated = {word.partition("=")[0].lstrip("+~"): word for word in further}
        found: dict[str, tuple[str, str]] = {}  # the override, and who says so, by key
        follow: dict[str, str] = {}
        for name, short, value in self.chosen(preset):
            given = short.convert(value)
            if given is NOTHING:
                continue
            for key in short.keys:
                _add(found, key, given, name)
            for key in short.follow:
                follow[key] = _override(key, given)
            if short.switch:
                _add(found, short.switch, given > 0, name)
        for (name, key), value in self.derived().items():
            _add(found, key, value, name)
        for key, word in stated.items():
            if key in found and not _agree(found[key][0], word):
                raise _contradiction(found[key], word)
        follow.update({key: _override(key, value) for key, value in self.follows({*found, *stated}).items()})
        words = [word for key, (word, _) in found.items() if key not in stated]
        words += [word for key, word in follow.items() if key not in stated and key not in found]
        return [f"preset={preset}"] * (self.chooses_preset and "preset" not in stated) + words + further

    def chosen(self, preset: str) -> list[tuple[str, Short, Any]]:
        """Return the names that are given, what they stand for, and their values."""
        shorts = [(name, short, getattr(self, name)) for name, short in table(type(self), preset).items()]
        return [(name, short, value) for name, short, value in shorts if value is not None]

    def derived(self) -> dict[tuple[str, str], Any]:
        """Return what follows from several fields: by the name of one and a key, the key's value."""
        return {}

    def follows(self, stated: Container[str]) -> dict[str, Any]:
        """Return the values of keys that nothing else sets; `stated` are those that something does set."""
        return {}


def table(cls: type, preset: str) -> dict[str, Short]:
    """Return what the fields of a class stand for."""
    fields: Any = dataclasses.fields(cls)
    return {item.name: item.metadata[preset] for item in fields if preset in item.metadata}


def documented(cls: Class) -> Class:
    """Write the table into the class's docstring, and answer names that it has not."""
    known = [item.name for item in dataclasses.fields(cls) if item.init]
    changed: Any = cls
    make = changed.__init__

    @functools.wraps(make)
    def checked(self: Any, **given: Any) -> None:
        for name in given:
            if name not in known:
                meant = nearest(name, known)
                hint = f"did you mean {meant}? Others" if meant else "others"
                raise ConfigError(
                    f"{cls.__name__} has no {name}", f"{hint} go by the config's keys: settings={{key: value}}"
                )
        make(self, **given)

    changed.__init__ = checked
    lines = []
    for name, short in table(cls, GRPO).items():
        other = table(cls, PPO)[name]
        text = f"{name}: {short}" + (f"; for PPO {other}" if other != short else "")
        lines.append(
            textwrap.fill(text, 100, initial_indent=" " * 4, subsequent_indent=" " * 8, break_long_words=False)
        )
    cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), "", "Attributes:", *lines])
    return cls


def _add(found: dict[str, tuple[str, str]], key: str, value: Any, name: str) -> None:
    word = _override(key, value)
    if key in found and found[key][0] != word:
        raise _contradiction(found[key], f"{name} ({word})")
    found[key] = (word, name)


def _override(key: str, value: Any) -> str:
    return as_overrides({key: value})[0]


def _agree(one: str, other: str) -> bool:
    """Tell whether two overrides give a key the same value."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        values = [parsed.value() for parsed in OverridesParser.create().parse_overrides([one, other])]
    except HydraException:
        return False
    return bool(values[0] == values[1])


def _contradiction(said: tuple[str, str], other: str) -> ConfigError:
    word, name = said
    return ConfigError(f"{name} stands for {word}, and {other} says something else", "leave one of the two out")


@documented
@dataclass(kw_only=True)
class TrainingConfig(ShortNames):
    """A dozen settings under short names, for `PPOTrainer` and `GRPOTrainer`. None: what config/ says.

    `settings` takes any others, by their keys: {"actor_rollout_ref.rollout.top_p": 0.9}.
    """

    total_epochs: int | None = short("passes over the prompts", "trainer.total_epochs")
    max_steps: int | None = short("steps to train for, whatever the epochs", "trainer.total_training_steps")
    batch_size: int | None = short("prompts per step", "data.train_batch_size", follow=[f"{ACTOR}.ppo_mini_batch_size"])
    mini_batch_size: int | None = short("prompts per optimizer step", f"{ACTOR}.ppo_mini_batch_size")
    gradient_accumulation_steps: int | None = short("passes per optimizer step", "local.gradient_accumulation_steps")
    learning_rate: float | None = short("of the policy", f"{ACTOR}.optim.lr")
    ppo_epochs: int | None = short("times that each batch is trained on", f"{ACTOR}.ppo_epochs")
    clip_range: float | None = short(
        "how far the probability ratio may move",
        f"{ACTOR}.clip_ratio",
        follow=[f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high"],
    )
    kl_coef: float | None = short(
        "weight of the KL divergence from the reference model in the loss; 0: none",
        f"{ACTOR}.kl_loss_coef",
        switch=f"{ACTOR}.use_kl_loss",
        ppo=Short(
            "its weight in the reward",
            ("algorithm.kl_ctrl.kl_coef",),
            switch="algorithm.use_kl_in_reward",
        ),
    )
    num_generations: int | None = short("responses to each prompt", f"{ROLLOUT}.n")
    max_prompt_length: int | None = short("in tokens", "data.max_prompt_length")
    max_response_length: int | None = short("in tokens", "data.max_response_length")
    temperature: float | None = short("of sampling", f"{ROLLOUT}.temperature")
    seed: int | None = short("of sampling and of the order of prompts", "local.seed", follow=["data.seed"])
    output_dir: str | None = short("where the run's records and checkpoints go", "trainer.default_local_dir")
    save_steps: int | None = short("save every so many steps", "trainer.save_freq")
    eval_steps: int | None = short("validate every so many steps", "trainer.test_freq")
    settings: Mapping[str, Any] = field(default_factory=dict)

    def follows(self, stated: Container[str]) -> dict[str, Any]:
        """Have epochs count where they are given."""
        return {} if self.total_epochs is None else {"trainer.total_training_steps": None}
