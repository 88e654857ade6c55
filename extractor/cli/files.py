"""`vextract sync`, `status` and `diff`: the files of a project."""

import os
import sys
from pathlib import Path
from typing import Annotated

from extractor.cli import output, screen, unfinished
from extractor.cli.options import DryRun, From, Json, Offline, Project, argument, describe, option
from extractor.values.errors import UsageError
from extractor.values.wording import count_noun


@screen.answers
def sync(
    path: Project = Path(),
    from_: From = None,
    offline: Offline = False,
    removed: Annotated[bool, option("--removed", "Bring back the project's other files too.")] = False,
    dry_run: DryRun = False,
) -> screen.Answer:
    """Restore missing vendored files, byte for byte.

    If the bytes would not be those of the lock, it fails and says what differs. Edited files stay as they are, and so
    do hooks.
    """
    from extractor.pipeline import apply
    from extractor.pipeline.plan import Reason, Verdict, plan_sync, read_digests_on_disk
    from extractor.project import base
    from extractor.usecases import emitted_files

    root, locked = unfinished.open_project(path)
    with output.show_progress("getting the emitted files"):
        emitted, rebuilt = emitted_files.read_emitted(root, locked, origin=from_, offline=offline)
    plan = plan_sync(locked, emitted, read_digests_on_disk(locked, root), removed=removed)
    if not dry_run:
        apply.restore(root, plan, base_data=base.dump(emitted) if rebuilt else None)
    kept = {
        name: plan.paths(Verdict.KEEP, reason)
        for name, reason in (("unchanged", Reason.UNCHANGED), ("edited", Reason.EDITED), ("removed", Reason.REMOVED))
    }
    restored = plan.paths(Verdict.ADD)
    head = [
        f"{count_noun(len(restored), 'file')} {'would be ' if dry_run else ''}restored,"
        f" {len(kept['unchanged'])} as emitted; all bytes match vextract.lock"
    ]
    if rebuilt:
        head.append(f"{'damaged ' if dry_run else 'rebuilt '}  .vextract/base.zip ({rebuilt})")
    lists = [
        [f"{'missing ' if dry_run else 'restored'}  {path}" for path in restored],
        [f"edited    {path} (left as it is)" for path in kept["edited"]],
        [f"removed   {path} (left so; --removed brings it back)" for path in kept["removed"]],
    ]
    data = {"path": root, "written": not dry_run, "restored": restored, **kept, "base_rebuilt": rebuilt}
    return screen.Answer(data, head, [screen.Section(lines) for lines in lists])


_PHASES = {"half way": "interrupted half way", "conflicts": "waits for its conflicts to be resolved", "done": "done"}


@screen.answers
def status(
    path: Project = Path(),
    check: Annotated[bool, option("--check", "Exit with 1 if a file is edited, or an upgrade unfinished.")] = False,
) -> screen.Answer:
    """Show what is edited, missing, conflicted or orphaned.

    It also says whether vextract supports a newer verl. Hooks are yours, and never count as edited.
    """
    from extractor.project import location, lock
    from extractor.usecases.status import State, read_status

    root = location.find(path, half_way=True)
    current = read_status(root, lock.read(root))
    options, borrowed = current.lock.options, current.lock.borrowed_from
    head = [describe(options)]
    if borrowed:
        head.append(f"experimental: made without a manifest of verl {options.verl}, from that of {borrowed}")
    if current.phase:
        head.append(f"upgrade {_PHASES[current.phase.value]}: {current.upgrade}")
    head.append(", ".join(f"{len(current.paths(state))} {state.value}" for state in State if current.paths(state)))
    head += [f"{'damaged':10}  {current.base}"] if current.base else []
    sections = []
    for state in (State.CONFLICTED, State.MISSING, State.EDITED, State.ORPHANED, State.YOURS):
        label, files = f"{state.value:10}  ", [file for file in current.files if file.state is state]
        lines = [f"{label}{file.path}{f'  ({file.note})' if file.note else ''}" for file in files]
        sections.append(screen.Section(lines))
    tail = [f"newer verl: {', '.join(current.newer)}"] if current.newer else []
    if current.vextract:
        tail.append(f"newer templates: vextract {current.lock.vextract} wrote this project, this is {current.vextract}")
    data = output.pick(options, "verl package engine algorithm recipe features", path=root, manifest_of=borrowed)
    data |= output.pick(current, "drift base files upgrade phase newer newer_vextract=vextract")
    code = int(check and current.drift)
    return screen.Answer(data, head, sections, tail, notes=current.say_next_steps(), code=code)


_CODES = (("+++", "1"), ("---", "1"), ("@@", "36"), ("+", "32"), ("-", "31"), ("\\", "2"))


def diff(
    path: Annotated[Path | None, argument("PATH", "The project, or a file or directory in it.")] = None,
    json: Json = False,
) -> None:
    """Show your edits against what was emitted.

    The diff is in the format of `patch -p1` and `git apply`. Without PATH it is that of the project around you.
    """
    from extractor.project import base
    from extractor.usecases.diff import list_edits

    asked = path or Path()
    start = asked if asked.is_dir() else asked.parent
    # A file that is missing, with its directory, belongs to where the command runs.
    root, locked = unfinished.open_project(start if start.is_dir() else Path(), allow_conflicts=True)
    absolute = Path(os.path.abspath(asked))  # noqa: PTH100 - a link in the project is named by its own path
    names = (absolute, absolute.parent.resolve() / absolute.name, asked.resolve())
    inside = next((name.relative_to(root).as_posix() for name in names if name.is_relative_to(root)), None)
    if inside is None:
        raise UsageError(f"{asked}: not in the project {root}", hint="name a file of the project")
    edits = list_edits(root, locked, base.read(root, locked), ["." if path is None else inside])
    if json:
        output.print_json([{"path": name, "diff": diff.decode(errors="replace")} for name, diff in edits.items()])
    elif edits:
        _show_diff(b"".join(edits.values()))
    else:
        output.print_note("no edits")


def _show_diff(diff: bytes) -> None:
    """Print a diff: raw, or escaped and coloured on a terminal."""
    if not sys.stdout.isatty():
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(diff)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            output.silence_flush()
        return
    text = diff.decode("utf-8", errors="replace").replace("\r\n", "\n").removesuffix("\n")
    lines = output.make_plain(text).split("\n")
    if output.is_fancy(sys.stdout):
        codes = (next((code for start, code in _CODES if line.startswith(start)), "0") for line in lines)
        lines = [f"\x1b[{code}m{line}\x1b[0m" for code, line in zip(codes, lines, strict=True)]
    output.print_data("\n".join(lines), styled=True)
