"""Rewrite one kept module."""

import ast
import re
from dataclasses import dataclass

from extractor.pipeline.rewrite.add_imports import add_imports, substitute_imports
from extractor.pipeline.rewrite.apply_fixes import apply_fix, list_fix_imports, list_re_exports
from extractor.pipeline.rewrite.changes import describe_dropped_methods, join_names
from extractor.pipeline.rewrite.drop_statements import drop_statements
from extractor.pipeline.rewrite.header import add_header
from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.plan_imports import plan_imports
from extractor.pipeline.rewrite.redirect_imports import redirect_imports
from extractor.pipeline.rewrite.redirect_strings import redirect_strings
from extractor.pipeline.rewrite.strip_ray import check_no_ray, strip_ray
from extractor.pipeline.rewrite.trim_exports import drop_computed_exports, trim_exports
from extractor.pipeline.slicer import KeptModule, Resolver
from extractor.values.errors import InternalError
from extractor.values.manifest import Fix

_NEWLINE = re.compile(r"\r\n|\r|\n")
_SUSPECT = re.compile(r"^[ \t]*(?:from[ \t]+\.|(?:from|import)[ \t].*\b(?:verl|ray)\b)", re.MULTILINE)


@dataclass(frozen=True)
class Emitted:
    """A vendored file.

    Attributes:
        path: Path in the package ("vendored/algorithms/core_algos.py").
        text: The whole text, header included.
        changes: What was done to upstream's text, one sentence each, as in the lock.
        warnings: What was left as it is and deserves a look.
    """

    path: str
    text: str
    changes: tuple[str, ...]
    warnings: tuple[str, ...]


def rewrite_module(module: KeptModule, resolver: Resolver, package: str, fixes: tuple[Fix, ...]) -> Emitted:
    """Rewrite one module.

    Args:
        module: What is kept of it.
        resolver: Says where imported names went.
        package: Import name of the generated package.
        fixes: The manifest's fixes; those named in `module.fixes` are applied.

    Raises:
        CannotRewrite: a use of Ray or of an unkept name, with file and line.
        CheckFailed: a fix that no longer applies.
    """
    newline = _find_newline(module.source)
    source = _NEWLINE.sub("\n", module.source.removeprefix("\ufeff"))
    dropped = drop_statements(source, frozenset(module.kept), module.parsed, dict(module.dropped))
    ours = [substitute.name for substitute in sorted(module.substitutes, key=lambda item: item.statement)]
    changes = _describe_dropped([name for name in dropped.names if name not in ours])
    changes += describe_dropped_methods(dropped.methods)
    if ours:
        changes.append(f"taken from this project's own code: {join_names(ours, 80)}")

    text, needed = dropped.text, substitute_imports(module.substitutes, package)
    mine = [fix for fix in fixes if fix.id in module.fixes]
    for fix in mine:
        text, applied = apply_fix(text, fix, dropped.rest, module.upstream_path)
        if applied:
            needed += list_fix_imports(fix, package)
            changes.append(f"fix {fix.id}: {fix.why}")
    strings = redirect_strings(Names(text), module, resolver, package)
    text = drop_computed_exports(strings.text, ast.parse(strings.text))
    if text != strings.text:
        changes.append("a computed __all__ dropped: star imports are spelt out")
    names = Names(add_imports(text, needed))
    names, notes = _remove_ray(names, package, source, module.upstream_path)
    if notes:
        changes.append(f"Ray removed: {', '.join(notes)}")

    if strings.moved:
        changes.append(f"paths in strings redirected: {join_names(list(strings.moved), 80)}")

    text, what = _rewrite_imports(names, module, resolver, package)
    if what:
        changes.append(what)
    if lines := [line for fix in mine for line in list_re_exports(fix, package)]:
        text = add_imports(text, lines)
    text = trim_exports(Names(text)) if "__all__" in text else text
    _check(text, module)
    text = text.replace("\n", newline)
    return Emitted(
        path=module.target_path,
        text=add_header(text, newline, upstream_path=module.upstream_path, modified=text != module.source),
        changes=tuple(changes),
        warnings=strings.warnings,
    )


def _find_newline(text: str) -> str:
    """Return the most frequent line end."""
    found = _NEWLINE.findall(text)
    return min(set(found), key=lambda kind: (-found.count(kind), kind), default="\n")


def _remove_ray(names: Names, package: str, source: str, path: str) -> tuple[Names, tuple[str, ...]]:
    """Remove uses of Ray, and say which; a use that cannot go is an error."""
    stripped = strip_ray(names, package, source, path)
    if stripped is None:
        return names, ()
    names = Names(add_imports(stripped.text, stripped.imports))
    check_no_ray(names, source, path)
    return names, stripped.notes


def _describe_dropped(names: list[str]) -> list[str]:
    if not names:
        return []
    noun = "definition" if len(names) == 1 else "definitions"
    return [f"dropped {len(names)} unreachable {noun}: {join_names(names, 90)}"]


def _rewrite_imports(names: Names, module: KeptModule, resolver: Resolver, package: str) -> tuple[str, str]:
    """Redirect and prune imports until nothing changes; return the text and what to say about it."""
    what = ""
    while True:
        plan = plan_imports(names, module, resolver, package)
        if plan.redirected:
            what = "imports redirected to the modules that define the names, unused ones dropped"
        if not plan.lines and not plan.dead:
            return names.text, what
        what = what or "unused imports dropped"
        text, lost_block = redirect_imports(names, plan)
        if not lost_block:
            return text, what
        names = Names(text)


def _check(text: str, module: KeptModule) -> None:
    """Refuse results that are not Python or import verl or Ray."""
    try:
        parsed = ast.parse(text)
    except SyntaxError as error:
        raise InternalError(
            f"{module.upstream_path}: the rewritten text is not valid Python: {error}",
            hint="report this with the command line that led to it",
        ) from error
    if _SUSPECT.search(text) is None:
        return
    for node in ast.walk(parsed):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        relative = isinstance(node, ast.ImportFrom) and node.level > 0
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        if relative or any(dotted.partition(".")[0] in ("verl", "ray") for dotted in modules):
            raise InternalError(
                f"{module.upstream_path}: the rewritten text still has the import `{ast.unparse(node)}`",
                hint="report this with the command line that led to it",
            )
