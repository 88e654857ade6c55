"""`vextract verify`, `explain`, `graph`, `sbom` and `export`: look into a project, and hand it on."""

import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from extractor.cli import output, screen, unfinished
from extractor.cli.options import From, Offline, Output, Project, Python, argument, option
from extractor.values.errors import UsageError
from extractor.values.shell import quote_for_shell
from extractor.values.wording import count_noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extractor.usecases.verify import Check


OutputDir = Annotated[Path | None, option("-o,--output DIR", "Directory to write; by default PATH-verl.")]
Settings = Annotated[list[str] | None, option("--set KEY=VALUE", "A setting, as main.py takes it; repeatable.")]
Modules = Annotated[
    list[str] | None, option("--include MODULE", "A module that your code imports, such as rewards/text.py.")
]


@screen.answers
def explain(
    name: Annotated[str, argument("", "A file, a module or a symbol, in upstream's name or the project's.")],
    path: Project = Path(),
    from_: From = None,
    offline: Offline = False,
) -> screen.Answer:
    """Say why a file or a symbol is here.

    For verl's code, print the chain of references that leads to it and how it was changed; for the project's own
    files, the template that they come from.
    """
    from extractor.project import base
    from extractor.usecases import emitted_files
    from extractor.usecases import explain as explaining
    from extractor.values import releases

    root, locked = unfinished.open_project(path, allow_conflicts=True)
    for place in (Path(name), root / name):
        if place.is_file() and place.resolve().is_relative_to(root):
            name = place.resolve().relative_to(root).as_posix()
            break
    # What a template makes is explained without verl, and without what was inferred of a release.
    templates = explaining.TemplateFiles(root, locked, releases.load(locked.borrowed_from or locked.options.verl))
    explanations = tuple(filter(None, (templates.file(name),)))
    if not explanations:
        with output.show_progress(f"reading verl {locked.options.verl}"):
            again = emitted_files.regenerate(locked, origin=from_, offline=offline)
            explanations = explaining.explain(again, templates, name)
        if emitted_files.list_differences(locked, base.collect_from_tree(again.tree)):
            output.print_warning(
                f"vextract {locked.vextract} wrote this project from another verl or with other rules:"
                " what follows is what would be emitted now"
            )
    return screen.Answer(explanations, sections=[screen.Section(item.lines()) for item in explanations])


@screen.answers
def graph(
    path: Project = Path(),
    verbose: Annotated[bool, option("--verbose,-v", "Every module; without it only the folders.")] = False,
) -> screen.Answer:
    """Show the modules by folder, with sizes and imports."""
    from extractor.usecases.graph import build

    graph = build(*unfinished.open_project(path))
    between, width = graph.between(), max(map(len, graph.groups), default=0)
    lines, groups, kinds = [], [], Counter[str]()
    for group, modules in graph.groups.items():
        targets = [other for (one, other), _ in between.most_common() if one == group]
        total = sum(module.lines for module in modules)
        size = f"{count_noun(len(modules), 'file')}, {total:,} lines"
        lines.append(f"{group:{width}}  {size:>23}" + (f"  -> {', '.join(targets)}" if targets else ""))
        for module in modules:
            kinds[module.kind] += module.lines
            if verbose:
                edited = ", edited" if module.edited else ""
                lines.append(f"  {module.path}  {module.lines:,} lines, {module.kind}{edited}")
                lines += [f"    -> {', '.join(module.imports)}"] if module.imports else []
        importers = {one.path: [other.path for other in graph.modules if one.path in other.imports] for one in modules}
        inside = [{**asdict(module), "imported_by": importers[module.path]} for module in modules]
        groups.append({"name": group, "lines": total, "modules": inside})
    told = ", ".join(f"{count:,} of kind {kind}" for kind, count in sorted(kinds.items()))
    head = [graph.title, f"{count_noun(len(graph.modules), 'file')}, {kinds.total():,} lines: {told}; tests apart"]
    head += [] if verbose else ["every module with -v"]
    return screen.Answer({"title": graph.title, "groups": groups}, head, [screen.Section(lines)])


def sbom(path: Project = Path(), file: Output = None) -> None:
    """Write a project's bill of materials, as SPDX 2.3 in JSON.

    It lists verl and its wheel, every file with its origin, digests and changes, and the pinned requirements. Nothing
    in it comes from the clock: it is dated 1980-01-01.
    """
    import json

    from extractor.usecases.sbom import write_sbom

    text = json.dumps(write_sbom(*unfinished.open_project(path)), indent=2)
    if file is None:
        output.print_data(text)
    else:
        output.write_file(file, f"{text}\n")
        output.print_note(f"wrote {file}")


@screen.answers
def verify(
    path: Project = Path(),
    python: Python = None,
    parity: Annotated[bool, option("--parity/--no-parity", "Compare numbers with upstream's own code.")] = True,
    strict: Annotated[bool, option("--strict", "Count edited files as failures.")] = False,
    provenance: Annotated[bool, option("--provenance", "Make the project anew instead, and compare digests.")] = False,
    fork: Annotated[Path | None, option("--fork", "Compare this fork's methods with what the project runs.")] = None,
    from_: From = None,
    offline: Offline = False,
) -> screen.Answer:
    """Check a project against upstream.

    Imports resolve, nothing leads to Ray, files have the lock's hashes, and the vendored code computes the same
    numbers as upstream's.
    """
    from extractor.usecases import emitted_files

    root, locked = unfinished.open_project(path)
    if provenance:
        from extractor.usecases.verify.hashes import check_provenance

        with output.show_progress("making the project anew"):
            checks = check_provenance(root, locked, origin=from_, offline=offline, strict=strict)
        return _answer(root, checks, "`vextract diff` shows your edits")
    if fork is not None:
        from extractor.importers.adopt.measure import check_methods

        with output.show_progress("running the fork's methods and the project's"):
            check = check_methods(root, fork, python, offline=offline)
        return _answer(root, [check], "-v shows what differs")
    with output.show_progress(f"reading verl {locked.options.verl}"):
        manifest, source = emitted_files.open_upstream(locked, origin=from_, offline=offline)
    if source.sha256 != locked.source_sha256:
        output.print_warning(
            f"the project was made from another {locked.source_kind} ({locked.source_sha256[:12]}) than the one"
            f" compared with ({source.sha256[:12]}): name it with --from"
        )
    from extractor.usecases.verify import run_verify

    with output.show_progress("checking") as say:
        checks = run_verify(
            root, source=source, manifest=manifest, python=python, parity=parity, strict=strict, progress=say
        )
    hint = "`vextract status` lists what is edited or missing, `vextract diff` shows your edits, -v all problems"
    return _answer(root, checks, hint, () if parity else ("parity",))


def _answer(root: Path, checks: "Sequence[Check]", hint: str, left_out: tuple[str, ...] = ()) -> screen.Answer:
    """Report checks, failures first."""
    from extractor.usecases.verify import CheckStatus

    failed = [check.name for check in checks if not check.ok]
    width = max((len(check.name) for check in checks), default=0)
    order = [CheckStatus.FAILED, CheckStatus.REPORTED, CheckStatus.OK, CheckStatus.SKIPPED]
    skipped = [*(check.name for check in checks if check.status is CheckStatus.SKIPPED), *left_out]
    passed = sum(check.ok and check.status is not CheckStatus.SKIPPED for check in checks)
    verdict = f"verdict: failed: {', '.join(failed)}" if failed else f"verdict: passed: {passed} checks"
    return screen.Answer(
        {"path": root, "ok": not failed, "checks": checks},
        [f"{check.status.value:8}  {check.name:{width}}  {check.summary}".rstrip() for check in checks],
        [
            screen.Section(
                [f"  {line}" for line in check.details],
                f"{check.name}:",
                rest=check.status not in order[:2] or check.name == "coverage",
            )
            for check in sorted(checks, key=lambda check: order.index(check.status))
        ],
        [verdict + (f"; not checked: {', '.join(skipped)}" if skipped else "")],
        error=(f"{len(failed)} of {len(checks)} checks failed", hint) if failed else None,
    )


@screen.answers
def export(
    path: Project = Path(),
    to: Annotated[str, option("--to", "Where it goes: verl.")] = "verl",
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

    if to != "verl":
        raise UsageError(f"{to}: an export goes to verl", hint="leave --to out")
    folder, locked = unfinished.open_project(path)
    release = locked.options.verl
    target = Path(os.path.abspath(out if out is not None else folder.parent / f"{folder.name}-verl"))  # noqa: PTH100
    if target.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target}: inside the project", hint="pass a directory outside it with -o")
    with output.show_progress(f"reading verl {release}"):
        _, source = emitted_files.open_upstream(locked, origin=from_, offline=offline)
    made = exporting.export(folder, locked, source, tuple(settings or ()), tuple(include or ()))
    exporting.write(target, made.files)
    numbers = {status: sum(key.status is status for key in made.keys) for status in exporting.KeyStatus}
    counts = ", ".join(f"{number} {status.value}" for status, number in numbers.items() if number)
    head = [f"made {target} for verl {release}: {counts}"]
    tail = [f"next:\n  cd {quote_for_shell(target)}\n  pip install -r requirements.txt\n  bash run.sh"]
    edits = [output.pick(edit, "path upstream_path applies why") for edit in made.edits]
    data = output.pick(made, "overrides keys remarks", path=target, files=list(made.files), edits=edits)
    return screen.Answer(data, head, tail=tail, warnings=made.remarks)
