"""What a project was made with: the choices that decide which files it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The choices behind a generated project; the lock stores them.

    Attributes:
        package: Import name of the generated package, an identifier.
        verl: Release of verl, such as "0.6.1".
        engine: Rollout engine: "hf" or "vllm".
        algorithm: Preset that the configuration starts from, such as "grpo".
        features: Names of the optional features that are vendored, sorted.
    """

    package: str
    verl: str
    engine: str = "hf"
    algorithm: str = "grpo"
    features: tuple[str, ...] = ()
