"""Write upstream's code with the named fixes that a project has."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from extractor.pipeline.rewrite.add_imports import add_imports
from extractor.pipeline.rewrite.apply_fixes import apply_fix, list_fix_imports
from extractor.pipeline.source import Source
from extractor.project import base
from extractor.usecases.verify.project_files import ProjectFiles
from extractor.values.manifest import Fix


def write_upstream(subject: ProjectFiles, source: Source, fixes: Iterable[Fix], folder: Path) -> list[str]:
    """Write upstream's files with a project's fixes; return the names of those.

    What a fix takes from the project's shims stands beside them, as it was emitted. One that takes other code of the
    project, or changes no bit, is left out.

    Args:
        fixes: The named fixes of the source's release.
        folder: A directory that does not exist.

    Raises:
        CheckFailed: a fix does not fit the source, or the project's base is damaged.
    """
    source.materialise(folder)
    package, shims = subject.lock.options.package, _write_shims(subject, folder)
    done = []
    for fix in fixes:
        path = folder / f"{fix.module.replace('.', '/')}.py"
        wanted = [item for edit in fix.edits for item in edit.imports if not item.startswith("=")]
        if fix.parity == "exact" or fix.engine not in (None, subject.lock.options.engine) or not path.is_file():
            continue
        text = fixed = path.read_text(encoding="utf-8")
        if fix.edits and fix.id in subject.fixes and all(_has(shims, item) for item in wanted):
            fixed = add_imports(apply_fix(text, fix, "", fix.module)[0], list_fix_imports(fix, package))
        rebound = [
            f"from {package}.{target.replace(':', ' import ')} as {symbol.partition(':')[2]}"
            for symbol, target in fix.replaced.items()
            if _has(shims, target)
        ]
        if fixed != text or rebound:
            path.write_text("\n".join((fixed, *rebound)) + "\n", encoding="utf-8")
            done.append(fix.id)
    return done


def _write_shims(subject: ProjectFiles, folder: Path) -> dict[str, str]:
    """Write the shims, which name upstream's modules there; return their texts by dotted name."""
    package, shims = subject.lock.options.package, {}
    places = {f"from ..{file.module.partition('.')[2]} ": f"from {file.upstream} " for file in subject.vendored}
    for path, data in base.read(subject.root, subject.lock).items():
        if path.startswith(f"{package}/shims/"):
            text = data.decode()
            for here, there in places.items():
                text = text.replace(here, there)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
            shims[path.removeprefix(f"{package}/").removesuffix(".py").replace("/", ".")] = text
    return shims


def _has(shims: Mapping[str, str], target: str) -> bool:
    """Tell whether a shim defines "module:name"."""
    home, _, name = target.partition(":")
    return re.search(rf"^\s*(?:def|class) {name}\b", shims.get(home, ""), re.MULTILINE) is not None
