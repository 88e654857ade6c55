"""Vendored packages with and without one named fix, and the tiny models that they are tried on."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from extractor.pipeline import generate as pipeline
from extractor.pipeline import render
from extractor.pipeline.generate import generate
from extractor.values import releases
from extractor.values.manifest import Fix
from extractor.values.options import Options
from extractor.values.tree import FileKind
from tests.releases import source_of

# All packages are generated under this name, and equal ones once; what is written has a name of its own.
PACKAGE = "qzq"  # in no text of verl; and as wide as what most tests rewrite for


@dataclass(frozen=True)
class Case:
    """A named fix of one release."""

    release: str
    fix: Fix

    def __str__(self) -> str:
        return f"{self.release}-{self.fix.id}"


@cache
def all_cases() -> list[Case]:
    """Every named fix of every manifest."""
    return [Case(release, fix) for release in releases.list_supported() for fix in releases.load(release).fixes]


@dataclass(frozen=True)
class Vendored:
    """A vendored package that can be imported."""

    package: str
    release: str

    def module(self, path: str) -> ModuleType:
        """The module at a dotted path below the package ("vendored.workers.dp_actor")."""
        return importlib.import_module(f"{self.package}.{path}")

    def get(self, path: str, name: str) -> Any:
        """A symbol of such a module."""
        return getattr(self.module(path), name)


@dataclass(frozen=True)
class Part:
    """A part of verl, which is vendored faster than all of it.

    Attributes:
        roles: The manifest's roles that it has.
        features: Optional features that are on.
        engine: The rollout engine.
    """

    roles: tuple[str, ...]
    features: tuple[str, ...] = ()
    engine: str = "hf"


# What most fixes are of: one part for all, so that each release's is vendored once.
TRAINING = Part(("actor", "algorithms", "critic", "protocol", "trainer_functions"), ("critic", "remove_padding"))


def vendor(release: str, part: Part, without: str | None, package: str, folder: Path) -> Vendored:
    """Write the package that a part of verl needs.

    Args:
        release: Of verl.
        part: Of verl.
        without: The named fix that is left out, if any.
        package: Its import name.
        folder: Where packages lie; it must be on `sys.path`.
    """
    manifest, source = releases.load(release), source_of(release)
    manifest = replace(manifest, roles=tuple(role for role in manifest.roles if role.name in part.roles))
    options = Options(PACKAGE, release, part.engine, features=tuple(sorted(part.features)))
    with mock.patch.object(render, "map_settings_to_features", return_value={}):  # takes long, and is not asked for
        made = generate(options, source, manifest)
    if without is not None:
        lacking = replace(manifest, fixes=tuple(fix for fix in manifest.fixes if fix.id != without))
        if any(fix.replaced for fix in manifest.fixes if fix.id == without):
            with mock.patch.object(render, "map_settings_to_features", return_value={}):
                made = generate(options, source, lacking)  # it decides which stand-ins there are
        else:  # what is ours stays as it is: to render it takes half of the time
            ours = [file for file in made.tree if file.kind is not FileKind.VENDORED]
            with mock.patch.object(pipeline, "render", return_value=ours):
                made = generate(options, source, lacking)
    for file in made.tree:
        if file.path.startswith(f"{PACKAGE}/"):
            path = folder / file.path.replace(PACKAGE, package, 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data.replace(PACKAGE.encode(), package.encode()))
    importlib.invalidate_caches()
    return Vendored(package, release)


def tiny_model(kind: str = "Qwen2ForCausalLM") -> Any:
    """A Qwen2 of two layers with random weights, float32; the same weights every time."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
        attention_dropout=0.0,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        num_labels=1,
        attn_implementation="sdpa",
    )
    model = getattr(transformers, kind)(config).float()
    if hasattr(model, "dropout"):
        model.dropout = torch.nn.Identity()
    return model


def token_batch(prompt: int = 5, response: int = 4) -> dict[str, Any]:
    """Three sequences, padded on both sides: input_ids, attention_mask, position_ids, responses, int64."""
    import torch

    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 40, (3, prompt + response), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    mask[2, -1:] = 0
    ids = ids * mask
    position = (mask.cumsum(-1) - 1).clamp(min=0)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": position,
        "responses": ids[:, prompt:],
        "response_mask": mask[:, prompt:],
    }


def calls_of(name: str, function: Callable[[], Any]) -> tuple[Any, int]:
    """What a function gives, and how often it called this method of tensors."""
    import torch

    original = getattr(torch.Tensor, name)
    calls = []

    def counted(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return original(tensor, *args, **kwargs)

    with mock.patch.object(torch.Tensor, name, counted):
        return function(), len(calls)


class Rows(dict[str, Any]):
    """As much of a TensorDict as is read, whose rows are padded already; or of a config."""

    __getattr__ = dict.__getitem__

    def select(self, *names: str) -> Rows:
        return Rows({name: self[name] for name in names})

    def to_padded_tensor(self) -> Rows:
        return self
