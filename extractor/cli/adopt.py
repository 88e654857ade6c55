"""`vextract adopt`: turn a copy of verl that was edited by hand into a project."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import output, screen
from extractor.cli.options import (
    Algorithm,
    ConfigDirs,
    DryRun,
    Engine,
    FromRun,
    Json,
    KeepUnknown,
    Offline,
    RunVerl,
    StartedIn,
    Variables,
    Verbose,
    With,
    is_given,
)
from extractor.cli.options import release as release_option
from extractor.values.shell import in_shell

if TYPE_CHECKING:
    from extractor.importers.adopt import Adoption, ForkEdit, Recognised, Share

_PACKAGE = "myproj"


def command(
    context: typer.Context,
    fork: Annotated[Path, typer.Argument(metavar="FORK_DIR", help="Your copy of verl, or a directory that holds it.")],
    target: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(help="Directory of the project; without it nothing is written."),
    ] = None,
    engine: Engine = "hf",
    verl: Annotated[
        Optional[str],  # noqa: UP045
        release_option("Release of verl that was copied; the nearest one by default."),
    ] = None,
    algorithm: Algorithm = "grpo",
    with_: With = None,
    package: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="Name of the Python package; the last part of TARGET by default."),
    ] = None,
    from_run: FromRun = None,
    run_verl: RunVerl = None,
    variables: Variables = None,
    config_dir: ConfigDirs = None,
    started_in: StartedIn = None,
    keep_unknown: KeepUnknown = False,
    offline: Offline = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Make a project from a copy of verl, with your edits in it.

    Finds the release that was copied, and carries your edits over to what vextract vendors of it. What has no place
    there is parked below orphaned/, with a note. From then on `vextract upgrade` keeps your edits. With --from-verl-run
    the project also has the experiment of a launch script of yours.
    """
    from extractor.cli import from_run as runs
    from extractor.importers.adopt import adopt, adopt_with_run, recognise
    from extractor.pipeline.generate import complete
    from extractor.project import location
    from extractor.values import releases
    from extractor.values.options import Options

    request = runs.request(from_run, variables, config_dir, run_verl, started_in, offline, keep_unknown)
    place = location.check_target(target) if target is not None else None
    name = package if package is not None else location.package_name(place.name) if place is not None else _PACKAGE
    location.check_package(name, "--package" if package is not None else "TARGET")
    with output.steps("adopting") as say:
        found = recognise(fork, verl, offline=offline, say=say)
        manifest = releases.load(found.source.release)
        asked = Options(name, manifest.release, engine, algorithm, tuple(sorted(set(with_ or ()))))
        if request is None:
            adoption = adopt(found, complete(asked, manifest), manifest, say)
        else:
            chosen = frozenset(item for item in ("engine", "algorithm") if is_given(context, item))
            adoption = adopt_with_run(found, asked, chosen, request, manifest, say)
        written = place is not None and not dry_run
        if place is not None and not dry_run:
            say(f"writing {target}")
            write(place, adoption, found)
    for text in (*found.warnings, *adoption.generated.warnings):
        output.warning(text)
    if json:
        run = {} if adoption.run is None else {"run": runs.report(adoption.run)}
        output.data_json({**_report(found, adoption, place, written), **run})
        return
    _show(found, adoption, verbose, below=6)
    if adoption.run is not None:
        runs.show(adoption.run, verbose=verbose, below=6)
    if target is not None and written:
        output.data(f"made {target}\nnext:\n  cd {in_shell(target)}\n  vextract diff\n  make setup\n  make train")
    else:
        output.note(f"nothing was written{'' if target is not None else '; name a TARGET to make the project'}")


def write(target: Path, adoption: "Adoption", found: "Recognised") -> None:
    from extractor import __version__
    from extractor.pipeline import apply
    from extractor.project import base, lock

    tree, source = adoption.generated.tree, found.source
    locked = lock.Lock.of(
        tree, adoption.options, vextract=__version__, source_kind=source.kind, source_sha256=source.sha256
    )
    apply.create(target, adoption.plan, lock_data=lock.dump(locked), base_data=base.dump(base.of_tree(tree)))


def _show(found: "Recognised", adoption: "Adoption", verbose: bool, below: int) -> None:
    from extractor.importers.adopt import Outcome

    head = [f"copy of verl: {found.copy.root}"]
    if found.copy.others:
        head.append(f"other copies of verl here: {', '.join(map(str, found.copy.others))} (name one to adopt it)")
    if found.copy.prefixes:
        head.append(f"imports itself as: {', '.join(found.copy.prefixes)}")
    score = found.score
    head.append(
        f"nearest release: verl {score.release} ({score.similarity:.1%}): {score.identical} files identical,"
        f" {score.edited} edited, {score.missing} missing"
    )
    if found.copy.says and found.copy.says != score.release:
        head.append(f"its version file says {found.copy.says}")
    if found.older is not None:
        older = found.older
        head.append(f"made from verl {older.release}, which is too old for a project ({older.similarity:.1%})")
    head.append(_behind(found))
    head.append(f"carried over: {_share(adoption.hunks, 'hunks')}, {_share(adoption.symbols, 'symbols')}")
    if drifted := [edit for edit in adoption.edits if edit.outcome is Outcome.UPSTREAM]:
        count = "1 place" if len(drifted) == 1 else f"{len(drifted)} places"
        head.append(f"of another day of upstream's, not edits: {count}; the project has verl {score.release}'s")
    if adoption.options.methods:
        names = ", ".join(name.partition(":")[2] for name in adoption.options.methods)
        head.append(f"methods that are here because your edits need them: {names}")
    if adoption.outside:
        head.append(f"your edits also import: {', '.join(adoption.outside)} (add them to pyproject.toml)")
    edits = {fate: [_line(edit) for edit in adoption.edits if edit.outcome is fate] for fate in Outcome}
    own = [
        f"  {file.path}" + (f" -> {file.copied}" if file.copied else "  (not copied)")
        for file in adoption.own
        if not file.is_upstreams
    ]
    others = [f"  verl {other.release}: {other.similarity:.1%}" for other in found.scores if other is not score]
    sections = [
        screen.Section(edits[Outcome.ORPHANED], "without a place, parked below orphaned/:"),
        screen.Section(edits[Outcome.CARRIED], "carried over:"),
        screen.Section(own, "files of your own:"),
        screen.Section(edits[Outcome.UPSTREAM], "as upstream had it on another day:"),
        screen.Section(others, "other releases:"),
    ]
    screen.show(head, sections, verbose=verbose, below=below)


def _behind(found: "Recognised") -> str:
    if not found.newer:
        return "that is the newest supported release"
    count = "1 supported release" if len(found.newer) == 1 else f"{len(found.newer)} supported releases"
    return f"behind by {count}: {', '.join(found.newer)}"


def _line(edit: "ForkEdit") -> str:
    place = f" ({edit.why})" if edit.why else f" -> {edit.where}" if edit.where else ""
    parts = f" in {', '.join(edit.parts)}" if edit.parts else ""
    return f"  {edit.upstream_path}: {edit.symbol}, {edit.what}{parts}{place}"


def _share(share: "Share", noun: str) -> str:
    return f"{share.carried} of {share.total} {noun} ({share.percent:.0f} %)"


def _report(found: "Recognised", adoption: "Adoption", target: Path | None, written: bool) -> dict[str, object]:
    options = adoption.options
    return {
        "path": str(target) if target is not None else None,
        "written": written,
        "fork": {
            "path": str(found.copy.root),
            "others": list(map(str, found.copy.others)),
            "imports": list(found.copy.prefixes),
            "says": found.copy.says,
        },
        "release": found.source.release,
        "made_from": found.older.release if found.older is not None else found.source.release,
        "newer": list(found.newer),
        "scores": [
            {
                "release": score.release,
                "similarity": round(score.similarity, 4),
                "identical": score.identical,
                "edited": score.edited,
                "missing": score.missing,
            }
            for score in found.scores
        ],
        "options": {
            "package": options.package,
            "verl": options.verl,
            "engine": options.engine,
            "algorithm": options.algorithm,
            "features": list(options.features),
            "methods": list(options.methods),
        },
        "edits": [
            {
                "upstream": edit.upstream_path,
                "symbol": edit.symbol,
                "what": edit.what,
                "parts": list(edit.parts),
                "hunks": edit.hunks,
                "fate": edit.outcome.value,
                "where": edit.where,
                "why": edit.why or None,
            }
            for edit in adoption.edits
        ],
        "own": [{"path": file.path, "copied": file.copied, "upstreams": file.is_upstreams} for file in adoption.own],
        "outside": list(adoption.outside),
        "carried": {
            "hunks": {"carried": adoption.hunks.carried, "total": adoption.hunks.total},
            "symbols": {"carried": adoption.symbols.carried, "total": adoption.symbols.total},
        },
        "warnings": [*found.warnings, *adoption.generated.warnings],
    }
