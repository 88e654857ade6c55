"""Find imports, losses and estimators that the owner must change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from extractor.pipeline.plan import Plan, Verdict
from extractor.usecases.owner_code import OwnerCode
from extractor.usecases.upgrade.own_losses import OwnCodeProblem, check_own_losses
from extractor.usecases.verify.scopes import Analysis, ImportedName, ModuleNames
from extractor.values import readers
from extractor.values.modules import is_package, name_module
from extractor.values.moves import rename_dotted_name
from extractor.values.tree import Tree


class _Modules(ModuleNames):
    """The modules of a project in memory."""

    def __init__(self, files: Mapping[str, str]) -> None:
        paths = {name_module(path): path for path in files if path.endswith(".py")}
        super().__init__(paths, cache(lambda module: _analyse(paths[module], files[paths[module]])))

    def answers(self, item: ImportedName, package: str) -> bool:
        """Tell whether an import resolves, also by a former module name."""
        now = replace(item, module=rename_dotted_name(item.module, package))
        whole = rename_dotted_name(f"{item.module}.{item.name}", package)
        return whole in self.known or not (self.explain_missing(item) and self.explain_missing(now))

    def find(self, name: str) -> list[str]:
        """Return the modules that define a name."""
        return sorted(
            module
            for module in self.modules
            if name in (found := self.analyse(module)).names and all(item.name != name for item in found.imports)
        )


def check_own_code(
    code: Sequence[OwnerCode],
    users: Mapping[str, str],
    emitted: Mapping[str, bytes],
    disk: Mapping[str, bytes | None],
    tree: Tree,
    plan: Plan,
    package: str,
    release: str,
) -> tuple[OwnCodeProblem, ...]:
    """Check the owner's imports, losses and estimators after the upgrade.

    Args:
        code: The owner's, before the upgrade.
        users: From `find_users`: vendored files that become the owner's.
        emitted: What was emitted, by path.
        disk: What lies there, by path.
        tree: What is emitted now.
        plan: What becomes of each file.
        release: What the new side is called.
    """
    conflicts, emitted_now = plan.paths(Verdict.CONFLICT), {file.path: file.data for file in tree}
    theirs, writes = ({path: _decode(data) for path, data in side.items()} for side in (emitted_now, plan.writes()))
    there = {path: _decode(data) for path, data in disk.items() if data is not None}
    losses, own = [], {path: there[path] for path in users if path in there}
    for item in code:
        text, was = item.text, item.emitted or ""
        if item.path in writes and item.path not in conflicts:
            text, was = writes[item.path], theirs.get(item.path, "")
        losses.append((item.path, text, was))
        if item.path not in (*conflicts, *plan.removals()):
            own[item.path] = text
    before = {path: text for path, text in there.items() if path in emitted} | {item.path: item.text for item in code}
    after = {**theirs, **{path: text for path, text in writes.items() if path not in conflicts}, **own}
    imports = _check_imports(_Modules(before), _Modules(after), own, package, release)
    return (*imports, *check_own_losses(emitted, emitted_now, losses, release))


def _check_imports(
    old: _Modules, new: _Modules, own: Mapping[str, str], package: str, release: str
) -> Iterator[OwnCodeProblem]:
    """Yield the owner's imports that the upgrade breaks."""
    for path, text in sorted(own.items()):
        for item in _analyse(path, text).imports:
            if item.module.partition(".")[0] != package or old.explain_missing(item) or new.answers(item, package):
                continue
            name = item.name or item.module
            places = new.find(name)
            where = f"it is in {' and '.join(places[:2])} now" if places else "it is nowhere else"
            yield OwnCodeProblem(path, item.line, name, f"{release} has it no longer in {item.module}; {where}")


def _analyse(path: str, text: str) -> Analysis:
    return Analysis(readers.parse_python_or_nothing(text), name_module(path), is_package=is_package(path))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
