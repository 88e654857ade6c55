"""`vextract export`: take a project's experiment to full verl."""

import os
from pathlib import Path
from typing import Annotated

from extractor.cli import output, screen, unfinished
from extractor.cli.options import From, Offline, Project, option
from extractor.values.errors import UsageError
from extractor.values.shell import quote_for_shell

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
    out: OutputDir = None,
    settings: Settings = None,
    include: Modules = None,
    from_: From = None,
    offline: Offline = False,
) -> screen.Answer:
    """Write the experiment for full verl on Ray.

    A launch script, adapters around the hooks, data and instructions.
    """
    from extractor.importers import export as exporting
    from extractor.usecases import emitted_files

    folder, locked = unfinished.open_project(path)
    release = locked.options.verl
    target = Path(os.path.abspath(out if out is not None else folder.parent / f"{folder.name}-verl"))  # noqa: PTH100
    if target.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target}: inside the project", hint="pass a directory outside it with -o")
    with output.show_progress(f"reading verl {release}"):
        _, source = emitted_files.open_upstream(locked, origin=from_, offline=offline)
    made = exporting.export(folder, locked, source, tuple(settings or ()), tuple(include or ()))
    exporting.write(target, made.files)
    found = {status: sum(key.status is status for key in made.keys) for status in exporting.KeyStatus}
    counts = ", ".join(f"{number} {status.value}" for status, number in found.items() if number)
    head = [f"made {target} for verl {release}: {counts}"]
    tail = [f"next:\n  cd {quote_for_shell(target)}\n  pip install -r requirements.txt\n  bash run.sh"]
    edits = output.pick_all(made.edits, "path upstream_path applies why")
    data = output.pick(made, "overrides keys remarks", path=target, files=list(made.files), edits=edits)
    return screen.Answer(data, head, tail=tail, warnings=made.remarks)
