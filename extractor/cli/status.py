"""`vextract status`: list what is edited, missing or in conflict."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extractor.cli import output, screen
from extractor.cli.options import Json, Project, Verbose

if TYPE_CHECKING:
    from extractor.usecases.status import FileStatus, Status

_PHASES = {"half way": "interrupted half way", "conflicts": "waits for its conflicts to be resolved", "done": "done"}


def command(
    path: Project = Path(),
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if a file is not as emitted, or an upgrade is not finished.")
    ] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Show what is edited, missing, conflicted or orphaned.

    It also says whether vextract supports a newer verl. Hooks are yours, and never count as edited.
    """
    from extractor.project import location, lock
    from extractor.usecases.status import status

    root = location.find(path, half_way=True)
    found = status(root, lock.read(root))
    if json:
        output.data_json(_report(root, found))
    else:
        _show(found, verbose)
    return 1 if check and found.drift else 0


def _show(found: "Status", verbose: bool) -> None:
    from extractor.usecases.status import State

    options = found.lock.options
    features = f" with {', '.join(options.features)}" if options.features else ""
    head = [f"verl {options.verl}, engine {options.engine}, algorithm {options.algorithm}{features}"]
    if found.lock.borrowed_from:
        head.append(
            f"experimental: made without a manifest of verl {options.verl}, from that of {found.lock.borrowed_from}"
        )
    if found.upgrade:
        head.append(f"upgrade {_PHASES[found.phase.value] if found.phase else ''}: {found.upgrade}")
    head.append(", ".join(f"{len(found.paths(state))} {state.value}" for state in State if found.paths(state)))
    if found.base:
        head.append(f"{'damaged':10}  {found.base}")
    sections = [
        screen.Section([_line(file) for file in found.files if file.state is state], prefix=f"{state.value:10}  ")
        for state in (State.CONFLICTED, State.MISSING, State.EDITED, State.ORPHANED, State.YOURS)
    ]
    tail = []
    if found.newer:
        tail.append(f"newer verl: {', '.join(found.newer)}")
    if found.vextract:
        tail.append(f"newer templates: vextract {found.lock.vextract} wrote this project, this is {found.vextract}")
    steps = _next(found)
    screen.show(head, sections, tail, verbose=verbose, below=screen.height(steps))
    for text in steps:
        output.note(text)


def _line(file: "FileStatus") -> str:
    return f"{file.state.value:10}  {file.path}{f'  ({file.note})' if file.note else ''}"


def _next(found: "Status") -> list[str]:
    """Return what to do about it."""
    from extractor.project.journal import Phase
    from extractor.usecases.status import State

    lines = []
    if found.phase is not None:
        first = "resolve the conflicts, then " if found.phase is Phase.CONFLICTS else ""
        lines.append(f"{first}`vextract upgrade --continue` finishes the upgrade, `vextract upgrade --abort` undoes it")
    missing = {file.kind.value for file in found.files if file.state is State.MISSING and file.kind is not None}
    if found.base or "vendored" in missing:
        lines.append("`vextract sync` restores what is missing of verl")
    if "template" in missing:
        lines.append("`vextract sync --removed` restores all that is missing")
    if found.paths(State.EDITED):
        lines.append("`vextract diff` shows your edits")
    if (found.newer or found.vextract) and found.phase is None:
        lines.append("`vextract upgrade --dry-run` shows what an upgrade would do")
    return lines


def _report(root: Path, found: "Status") -> dict[str, object]:
    options = found.lock.options
    return {
        "path": str(root),
        "verl": options.verl,
        "manifest_of": found.lock.borrowed_from or options.verl,
        "options": {
            "package": options.package,
            "engine": options.engine,
            "algorithm": options.algorithm,
            "recipe": options.recipe,
            "features": list(options.features),
        },
        "drift": found.drift,
        "base": found.base or None,
        "upgrade": {"title": found.upgrade, "phase": found.phase.value} if found.phase else None,
        "newer": {"verl": list(found.newer), "vextract": found.vextract},
        "files": [
            {
                "path": file.path,
                "state": file.state.value,
                "kind": file.kind.value if file.kind else None,
                "note": file.note or None,
            }
            for file in found.files
        ],
    }
