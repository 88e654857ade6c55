"""`vextract status`: list what is edited, missing or in conflict."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from extractor.cli import output, screen
from extractor.cli.options import Json, Project, Verbose, describe, option

if TYPE_CHECKING:
    from extractor.usecases.status import Status

_PHASES = {"half way": "interrupted half way", "conflicts": "waits for its conflicts to be resolved", "done": "done"}


def command(
    path: Project = Path(),
    check: Annotated[
        bool, option("--check", "Exit with 1 if a file is not as emitted, or an upgrade is not finished.")
    ] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Show what is edited, missing, conflicted or orphaned.

    It also says whether vextract supports a newer verl. Hooks are yours, and never count as edited.
    """
    from extractor.project import location, lock
    from extractor.usecases.status import read_status

    root = location.find(path, half_way=True)
    found = read_status(root, lock.read(root))
    if json:
        output.data_json(_report(root, found))
    else:
        _show(found, verbose)
        for text in found.say_next_steps():
            output.note(text)
    return 1 if check and found.drift else 0


def _show(found: "Status", verbose: bool) -> None:
    from extractor.usecases.status import State

    options, borrowed = found.lock.options, found.lock.borrowed_from
    head = [describe(options)]
    if borrowed:
        head.append(f"experimental: made without a manifest of verl {options.verl}, from that of {borrowed}")
    if found.phase:
        head.append(f"upgrade {_PHASES[found.phase.value]}: {found.upgrade}")
    head.append(", ".join(f"{len(found.paths(state))} {state.value}" for state in State if found.paths(state)))
    if found.base:
        head.append(f"{'damaged':10}  {found.base}")
    sections = [
        screen.Section(
            [
                f"{state.value:10}  {file.path}{f'  ({file.note})' if file.note else ''}"
                for file in found.files
                if file.state is state
            ],
            prefix=f"{state.value:10}  ",
        )
        for state in (State.CONFLICTED, State.MISSING, State.EDITED, State.ORPHANED, State.YOURS)
    ]
    tail = [f"newer verl: {', '.join(found.newer)}"] if found.newer else []
    if found.vextract:
        tail.append(f"newer templates: vextract {found.lock.vextract} wrote this project, this is {found.vextract}")
    screen.show(head, sections, tail, verbose=verbose)


def _report(root: Path, found: "Status") -> dict[str, object]:
    options = found.lock.options
    return {
        "path": root,
        "verl": options.verl,
        "manifest_of": found.lock.borrowed_from or options.verl,
        "options": output.pick(options, "package engine algorithm recipe features"),
        "drift": found.drift,
        "base": found.base or None,
        "upgrade": {"title": found.upgrade, "phase": found.phase} if found.phase else None,
        "newer": {"verl": found.newer, "vextract": found.vextract},
        "files": [output.pick(file, "path state kind", note=file.note or None) for file in found.files],
    }
