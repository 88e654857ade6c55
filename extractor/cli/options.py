"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

# Those of the newest release, as help is printed without reading a manifest; a test compares them.
FEATURES = (
    "agents, code_scorers, critic, distillation, dynamic_bsz, dynamic_sampling, early_stopping, env_gym, env_openenv, "
    "env_reasoning_gym, env_textarena, env_verifiers, episodes, export_model, former_names, freed_memory, "
    "given_objects, hook_checks, hub, logits_in_pieces, lora, math, mfu, multimodal, offload, overlap, "
    "overlong_penalty, parts, peer_watch, placement, plots, prime, profiler, python_tool, qlora, remove_padding, "
    "rescue, reward_forms, reward_logs, reward_managers, reward_model, reward_processes, reward_rules, "
    "rollout_correction, sandbox, scorers, sft, sharded_checkpoints, short_names, special_tokens, sweep, tools, "
    "tools_mcp, trackers, verl_checkpoints, watch"
)


def make_features_option(flag: str, purpose: str) -> Any:
    """Make an option for feature names, repeatable or separated by commas."""

    def split(values: list[str] | None) -> list[str]:
        names = [name.strip() for value in values or () for name in value.split(",")]
        return [name.replace("-", "_") for name in names if name]

    return typer.Option(
        flag,
        metavar="FEATURE[,...]",
        help=f"{purpose}; repeatable. Features: all, {FEATURES}." if flag == "--with" else f"{purpose}; repeatable.",
        callback=split,
    )


def describe(options: Any) -> str:
    """Return a project's options in words."""
    features = f" with {', '.join(options.features)}" if options.features else ""
    return f"verl {options.verl}, engine {options.engine}, algorithm {options.algorithm}{features}"


def is_given(context: typer.Context, name: str) -> bool:
    """Tell whether an option stands on the command line."""
    where = context.get_parameter_source(name)
    return where is not None and where.name != "DEFAULT"


Project = Annotated[Path, typer.Argument(metavar="PATH", help="The project, or a directory in it.")]
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PYTHON", help="Interpreter that has the project's requirements; the project's own by default."
    ),
]
InProject = Annotated[
    Path, typer.Option("--project", metavar="PATH", help="The project, or a directory in it; by default where you are.")
]
AllowDirty = Annotated[
    bool, typer.Option("--allow-dirty", help="Go on although managed files have uncommitted changes.")
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="PATH", help="Read verl from a wheel, an sdist, a checkout or an installed package."
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never download; use the cache.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file; without it, to stdout.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the whole report; without it, one screen.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]
Engine = Annotated[str, typer.Option(help="Rollout engine: hf, vllm or sglang.")]
Algorithm = Annotated[
    str, typer.Option(help="Preset to start from: grpo, ppo, dapo...; `vextract versions -v` lists them.")
]
Recipe = Annotated[
    str,
    typer.Option(
        help="Task to start from: toy, gsm8k, reasoning, multiturn or sft. It decides hooks, data and settings."
    ),
]
With = Annotated[
    list[str] | None,
    make_features_option("--with", "Vendor optional features as well; `vextract versions -v` says what each is"),
]
Agent = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Train behind this agent program of yours, by the feature agents; it is called once for each sample.",
    ),
]
FromRun = Annotated[
    Path | None,
    typer.Option(
        "--from-verl-run",
        metavar="FILE",
        help="Take the experiment from a run of verl, EasyR1 or TRL: a launch script, overrides, a config, its"
        " log, what Hydra or a tracker wrote of it, or a checkpoint of verl to go on from.",
    ),
]
RunVerl = Annotated[
    str | None, typer.Option("--run-verl", metavar="RELEASE", help="Release that the run is for; detected by default.")
]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="VAR=VALUE",
        help="A variable of the run's script, or its argument (1=VALUE), or @FILE of such lines; repeatable.",
    ),
]
ConfigDirs = Annotated[
    list[Path] | None,
    typer.Option("--config-dir", metavar="DIR", help="Directory of configs that the run names; repeatable."),
]
StartedIn = Annotated[
    Path | None,
    typer.Option(
        "--cwd",
        metavar="DIR",
        help="Directory that the run is started in; by default the one below which the paths that it names exist.",
    ),
]
KeepUnknown = Annotated[
    bool, typer.Option("--keep-unknown", help="Put settings of the run that no release has into a file of their own.")
]
