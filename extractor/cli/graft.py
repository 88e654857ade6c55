"""`vextract graft`: take one method of somebody's fork into a project."""

from pathlib import Path
from typing import Annotated

import typer

from extractor.cli import output, unfinished
from extractor.cli.options import Json, Offline
from extractor.values.shell import quote_for_shell

Fork = Annotated[
    str,
    typer.Argument(metavar="FORK[::SYMBOL]", help="A copy of verl; ::SYMBOL names one of its methods or functions."),
]
Target = Annotated[Path, typer.Argument(metavar="PROJECT", help="The project; the one here by default.")]


def command(fork: Fork, path: Target = Path(), offline: Offline = False, json: Json = False) -> int:
    """Take one method of a fork into a project, as a hook.

    Without ::SYMBOL, lists what the fork has and upstream has not. A method becomes a hook in custom/algorithms.py,
    with the functions that it needs, and its settings come into config/. `vextract verify --fork` compares its numbers.
    """
    from extractor.importers.adopt import recognise
    from extractor.importers.adopt.graft import graft, list_ideas
    from extractor.importers.adopt.method_states import Runs
    from extractor.project import disk

    directory, _, symbol = fork.partition("::")
    with output.steps("reading the fork") as say:
        found = recognise(Path(directory), None, offline=offline, say=say)
    if not symbol:
        ideas = list(list_ideas(found))
        if json:
            output.data_json(output.pick_all(ideas, "kind name path about"))
        for idea in ideas if not json else ():
            output.data(f"{idea.kind} {idea.name} ({idea.path}): {idea.about}")
        return 0
    root, locked = unfinished.open_project(path)
    state, files = graft(found, symbol, root, locked, offline=offline)
    for name, data in files.items():
        target = disk.gate(root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        disk.replace(target, data)
    if json:
        output.data_json(output.pick(state, "kind name runs where setting why", files=sorted(files)))
        return 0
    output.data(f"{state.kind} {state.name} {state.runs.value}: {state.where}, chosen by {state.setting}")
    if state.runs is not Runs.YES:
        output.warning(state.why)
    output.data(f"check it: vextract verify {quote_for_shell(root)} --fork {quote_for_shell(directory)}")
    return 0
