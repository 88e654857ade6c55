"""Options that several commands share."""

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

# Those of the newest release, as help is printed without reading a manifest; a test compares them.
FEATURES = (
    "agents, code_scorers, critic, dataset_classes, distillation, dynamic_bsz, dynamic_sampling, early_stopping, "
    "env_gym, env_openenv, env_reasoning_gym, env_textarena, env_verifiers, episodes, export_model, former_names, "
    "freed_memory, given_objects, hook_checks, hub, logits_in_pieces, lora, loss_columns, math, mfu, multimodal, "
    "offload, overlap, overlong_penalty, parts, peer_watch, placement, plots, prime, profiler, provenance, "
    "python_tool, qlora, remove_padding, rescue, reward_forms, reward_logs, reward_managers, reward_model, "
    "reward_processes, reward_rules, rollout_correction, sandbox, scorers, sft, sharded_checkpoints, shared_passes, "
    "short_names, special_tokens, step_hooks, sweep, tools, tools_mcp, trackers, verl_checkpoints, watch"
)


def option(declared: str, text: str, **more: Any) -> Any:
    """Define an option: "--output,-o FILE", and its help."""
    flags, _, metavar = declared.partition(" ")
    return typer.Option(*flags.split(","), metavar=metavar or None, help=text, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    """Define an argument: "PATH", and its help."""
    return typer.Argument(metavar=metavar or None, help=text, **more)


def make_features_option(flag: str, purpose: str) -> Any:
    """Make an option for feature names, repeatable or separated by commas."""

    def split(values: list[str] | None) -> list[str]:
        names = [name.strip() for value in values or () for name in value.split(",")]
        return [name.replace("-", "_") for name in names if name]

    known = f" Features: all, {FEATURES}." if flag == "--with" else ""
    return option(f"{flag} FEATURE[,...]", f"{purpose}; repeatable.{known}", callback=split)


def declare(
    command: Callable[..., Any], wrapper: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Have a wrapper stand for a command, with these parameters."""
    functools.update_wrapper(wrapper, command)
    keyed = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in parameters]
    wrapper.__signature__ = inspect.Signature(keyed)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {item.name: item.annotation for item in keyed}
    return wrapper


def describe(options: Any) -> str:
    """Return a project's options in words."""
    features = f" with {', '.join(options.features)}" if options.features else ""
    return f"verl {options.verl}, engine {options.engine}, algorithm {options.algorithm}{features}"


def is_given(context: typer.Context, name: str) -> bool:
    """Tell whether an option stands on the command line."""
    where = context.get_parameter_source(name)
    return where is not None and where.name != "DEFAULT"


Project = Annotated[Path, argument("PATH", "The project, or a directory in it.")]
Python = Annotated[str | None, option("--python PYTHON", "Interpreter to use; the project's own by default.")]
InProject = Annotated[Path, option("--project PATH", "The project, or a directory in it; by default where you are.")]
AllowDirty = Annotated[bool, option("--allow-dirty", "Go on although managed files have uncommitted changes.")]
From = Annotated[Path | None, option("--from PATH", "Read verl from a wheel, a checkout or an installed package.")]
Offline = Annotated[bool, option("--offline", "Never download; use the cache.")]
Output = Annotated[Path | None, option("--output,-o FILE", "Write to a file; without it, to stdout.")]
Json = Annotated[bool, option("--json", "Print the report as JSON.")]
Verbose = Annotated[bool, option("--verbose,-v", "Print the whole report; without it, one screen.")]
DryRun = Annotated[bool, option("--dry-run", "Show what would be written, and write nothing.")]
Engine = Annotated[str, option("--engine", "Rollout engine: hf, vllm or sglang.")]
Algorithm = Annotated[str, option("--algorithm", "Preset: grpo, ppo, dapo...; `vextract versions -v` lists them.")]
Recipe = Annotated[str, option("--recipe", "Hooks, data and settings of toy, gsm8k, reasoning, multiturn or sft.")]
Package = Annotated[str | None, option("--package NAME", "Name of the Python package; by default the directory's.")]
With = Annotated[list[str] | None, make_features_option("--with", "With optional features (`vextract versions -v`)")]
Agent = Annotated[str | None, option("--agent MODULE:FUNCTION", "Your agent program, called once for each sample.")]
