"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

Project = Annotated[Path, typer.Argument(metavar="[PATH]", help="The project, or a directory in it.")]
From = Annotated[
    Optional[Path],  # noqa: UP045 - Typer evaluates it on Python 3.10 as well
    typer.Option(
        "--from", metavar="PATH", help="Read verl from a wheel, an sdist, a checkout or an installed package."
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never download; use the cache.")]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]
Engine = Annotated[str, typer.Option(help="Rollout engine: hf, vllm or sglang.")]
Algorithm = Annotated[
    str, typer.Option(help="Preset to start from: grpo, ppo, dapo...; `vextract versions` lists them.")
]
Recipe = Annotated[
    str, typer.Option(help="What it is for: toy, gsm8k, reasoning or multiturn. Decides hooks, data and settings.")
]
With = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--with", metavar="FEATURE", help="Vendor an optional feature as well; repeatable."),
]
