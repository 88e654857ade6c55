"""`vextract export`: take a project's experiment to full verl."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extractor.cli import output, screen, unfinished
from extractor.cli.options import DryRun, From, Offline, Project, option
from extractor.values.errors import UsageError
from extractor.values.shell import quote_for_shell

if TYPE_CHECKING:
    from extractor.importers.export import Export

OutputDir = Annotated[
    Path | None,
    option("-o,--output DIR", "Directory to write; by default PATH-verl beside PATH."),
]
Settings = Annotated[list[str] | None, option("--set KEY=VALUE", "A setting, as main.py takes it; repeatable.")]
Modules = Annotated[
    list[str] | None,
    option("--include MODULE", "A module of the package that code of yours imports there, such as rewards/text.py."),
]


@screen.answers
def export(
    path: Project = Path(),
    to: Annotated[str, option("--to TARGET", "Where to: verl.")] = "verl",
    verl: Annotated[str | None, typer.Option(metavar="RELEASE", hidden=True)] = None,
    out: OutputDir = None,
    settings: Settings = None,
    include: Modules = None,
    from_: From = None,
    offline: Offline = False,
    dry_run: DryRun = False,
) -> screen.Answer:
    """Write the experiment for full verl on Ray.

    A launch script, adapters around the hooks, data and instructions.
    """
    from extractor.importers import export as exporting
    from extractor.pipeline.source import detect_release
    from extractor.usecases import emitted_files

    if to != "verl":
        raise UsageError(f"--to {to}: unknown target", hint="pass --to verl")
    folder, locked = unfinished.open_project(path)
    own = locked.options.verl
    release = verl or (detect_release(from_) if from_ is not None else own)
    target = Path(os.path.abspath(out if out is not None else folder.parent / f"{folder.name}-verl"))  # noqa: PTH100
    if target.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target}: inside the project", hint="pass a directory outside it with -o")
    if release != own:
        raise UsageError(
            f"verl {release}: an export is for the project's own release, {own}",
            hint=f"in a copy of the project: vextract upgrade --to {release}; then export that",
        )
    with output.show_progress(f"reading verl {release}"):
        _, source = emitted_files.open_upstream(locked, origin=from_, offline=offline)
    made = exporting.export(folder, locked, source, tuple(settings or ()), tuple(include or ()))
    if not dry_run:
        exporting.write(target, made.files)
    found = {status: sum(key.status is status for key in made.keys) for status in exporting.KeyStatus}
    counts = ", ".join(f"{number} {status.value}" for status, number in found.items() if number)
    head = [f"made {target} for verl {release}: {counts}"]
    sections, tail = [], [f"next:\n  cd {quote_for_shell(target)}\n  pip install -r requirements.txt\n  bash run.sh"]
    if dry_run:
        head = [f"would make {target}: {counts}; nothing was written"]
        sections, tail = [screen.Section([f"  {path}" for path in made.files])], []
    return screen.Answer(_collect_data(target, made, release, dry_run), head, sections, tail, warnings=made.remarks)


def _collect_data(target: Path, made: "Export", release: str, dry_run: bool) -> dict[str, object]:
    keys = [
        {
            **output.pick(key, "key value", status=key.status.name.lower()),
            **output.pick(key, "target target_value", added=key.mark == "+", reason=key.reason),
        }
        for key in made.keys
    ]
    return {
        "path": target,
        "written": not dry_run,
        "verl": release,
        "files": list(made.files),
        "overrides": made.overrides,
        "keys": keys,
        "edits": output.pick_all(made.edits, "path upstream_path applies why"),
        "remarks": made.remarks,
    }
