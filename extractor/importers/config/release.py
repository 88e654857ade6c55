"""Read the config of a verl release from its source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from extractor.pipeline.source import Source
from extractor.values.configtree import Composed, Override, compose, flatten, resolve
from extractor.values.configtree.resolve import select

CONFIG = "verl/trainer/config/"
MAIN = "ppo_trainer.yaml"
# Code that trains by FSDP is all but this: other engines and trainers, what is no training, and config classes.
_ELSEWHERE = re.compile(
    r"megatron|mcore|mindspeed|veomni|torchtitan|automodel|trtllm|tensorrt|nemo|bumblebee|/npu|_npu"
    r"|sft|main_eval|main_generation|model_merger|diagnos|/tests?/|recipe|/models/|/third_party/"
    r"|/experimental/(?!agent_loop|reward_loop)|fully_async|one_step_off|/config/|config\.py\Z"
)
# `optim.betas`, `optim["betas"]`, `optim.get("betas")`, `getattr(optim, "betas")`: an owner, and what is read of it.
_READ = re.compile(r"\b(\w+)\b(?=(?:\.get\(\s*[\"']|\[[\"']|, [\"']|\.)([A-Za-z_]\w*))")
_ANY_SECTION = frozenset({"cfg", "conf", "config"})


@dataclass(frozen=True)
class ReleaseConfig:
    """The configs of a verl release."""

    release: str
    files: Mapping[str, str] = field(repr=False)
    source: Source = field(repr=False)

    @classmethod
    def of(cls, source: Source) -> ReleaseConfig:
        """Read the configs of a source."""
        paths = (path for path in source.files if path.startswith(CONFIG) and path.endswith(".yaml"))
        return cls(source.release, {path.removeprefix(CONFIG): source.read(path) for path in paths}, source)

    @cached_property
    def _reads(self) -> frozenset[tuple[str, str]]:
        """Return (owner, name) pairs that FSDP training code reads."""
        files = self.source.files.items()
        code = (data for path, data in files if path.endswith(".py") and not _ELSEWHERE.search(path))
        return frozenset(pair for data in code for pair in _READ.findall(data.decode("utf-8", errors="replace")))

    @cached_property
    def _fields(self) -> Mapping[str, set[str]]:
        """Return the fields of config classes, by class."""
        from extractor.usecases.draft.config_fields import map_fields

        return map_fields(self.source)

    def compose(self, overrides: Sequence[Override] = (), main: str = MAIN) -> Composed:
        """Return the release's config with overrides."""
        return compose(self.files, main, overrides)

    def has(self, path: str) -> bool:
        """Tell whether the release has a file."""
        return path in self.source.files

    def function(self, path: str, name: str) -> str:
        """Return a function's text behind `def NAME(`, or "" if missing."""
        text = self.source.read(path) if self.has(path) else ""
        match = re.search(
            rf"^(?:async )?def {name}\((.*?)(?=^(?:def |class |@|async def )|\Z)", text, re.DOTALL | re.MULTILINE
        )
        return match[1] if match else ""

    def reads(self, name: str) -> bool:
        """Tell whether any code of the release reads this setting name."""
        pattern = re.compile(rf"\.{re.escape(name)}\b|[\"']{re.escape(name)}[\"']".encode())
        return any(pattern.search(data) for path, data in self.source.files.items() if path.endswith(".py"))

    def is_read_in_training(self, key: str, defaults: Mapping[str, Any]) -> bool:
        """Tell whether FSDP training code reads the key's unknown parts."""
        parts, known = key.split("."), 0
        while known < len(parts) - 1 and isinstance(defaults.get(parts[known]), Mapping):
            defaults, known = defaults[parts[known]], known + 1
        for section, name in pairwise(parts):
            if section.endswith("_kwargs"):  # a user's function's: they have names of the user's
                return True
            known -= 1
            if known <= 0 and not _is_read(self._reads, section.removesuffix("_config"), name):
                return False
        return True

    def refuses(self, key: str, config: Mapping[str, Any]) -> str | None:
        """Say why a key may not be added, or return None."""
        parts = key.split(".")
        for end in range(len(parts) - 1, 0, -1):
            try:
                section = select(config, ".".join(parts[:end]))
            except KeyError:
                continue
            if not isinstance(section, Mapping):
                return f"{'.'.join(parts[:end])} is no section"
            cls = str(section.get("_target_", "")).rpartition(".")[2]
            fields = self._fields.get(cls)
            if fields is not None and parts[end] not in fields:
                return f"{cls} of verl {self.release} has no field {parts[end]}"
            return None
        return None


@dataclass(frozen=True)
class VerlDefaults:
    """A release's config without overrides: nested, and resolved key by key."""

    config: Mapping[str, Any]
    flat: Mapping[str, Any]

    @classmethod
    def of(cls, target: ReleaseConfig) -> VerlDefaults:
        """Return the defaults of a release."""
        config = target.compose().config
        return cls(config, flatten(resolve(config)))

    def depth(self, key: str) -> int:
        """Return how many leading parts of a key the release has."""
        parts = key.split(".")
        return next((end for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in self), 0)

    def __contains__(self, key: str) -> bool:
        try:
            select(self.config, key)
        except KeyError:
            return False
        return True


def _is_read(reads: frozenset[tuple[str, str]], section: str, name: str) -> bool:
    """Tell whether code reads a setting from its section or config."""
    owners = {owner.removesuffix("_config") for owner, read in reads if read == name}
    if name.endswith("_kwargs"):  # which code reads of a variable of any name
        return bool(owners)
    return any(owner in _ANY_SECTION or owner == section or owner.endswith(f"_{section}") for owner in owners)
