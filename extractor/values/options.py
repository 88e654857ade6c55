"""The options that a project is made with."""

from dataclasses import dataclass

# What a project can start from. They differ in hooks, data preparation and settings only.
RECIPES = ("toy", "gsm8k", "reasoning", "multiturn", "sft")
# Of projects for an environment of another package, which `--env` names.
ENVIRONMENT = "environment"


@dataclass(frozen=True)
class Options:
    """The choices behind a generated project; the lock stores them.

    Attributes:
        package: Import name of the generated package, an identifier.
        verl: Release of verl, such as "0.6.1".
        engine: Rollout engine: "hf", "sglang" or "vllm".
        algorithm: Preset that the configuration starts from, such as "grpo".
        features: Names of the optional features that are vendored, sorted.
        methods: Methods of upstream's classes that are vendored because the owner uses them, as "module:Class.method",
            sorted.
        roots: Symbols of verl that are vendored because the owner's code imports them, as "module:name", sorted.
        manifest: The text of the owner's `vextract.toml`.
        recipe: What the hooks, the data preparation and the settings are for, one of RECIPES or ENVIRONMENT.
    """

    package: str
    verl: str
    engine: str = "hf"
    algorithm: str = "grpo"
    features: tuple[str, ...] = ()
    recipe: str = "toy"
    methods: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    manifest: str = ""
