"""Graft a fork's method onto an existing project."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from extractor.importers.adopt import choose
from extractor.importers.adopt.find_methods import describe, find_method
from extractor.importers.adopt.method_hooks import FILE, make_hook
from extractor.importers.adopt.method_states import MethodState, state_of
from extractor.importers.adopt.own_keys import add_own_keys
from extractor.importers.adopt.recognised import Recognised
from extractor.importers.adopt.target_project import NoPlace
from extractor.project.lock import Lock
from extractor.usecases.emitted_files import open_upstream
from extractor.values import readers
from extractor.values.errors import CheckFailed, UsageError
from extractor.values.tree import File, FileKind


@dataclass(frozen=True)
class Idea:
    """A method or definition that only the fork has."""

    kind: str
    name: str
    path: str
    about: str


def list_ideas(found: Recognised) -> Iterator[Idea]:
    """Yield a fork's methods, then its other new or edited definitions."""
    methods = found.methods
    for method in methods:
        yield Idea(method.kind, method.name, method.module.path, method.about or "it says nothing of itself")
    shown = {pair for method in methods for pair in ((method.module.name, method.function), *method.functions)}
    for path, compared in sorted(found.compared.items()):
        module = path.removesuffix(".py").replace("/", ".")
        for item in compared.symbols:
            if item.new is None or item.is_upstreams or not item.new.is_definition or (module, item.key) in shown:
                continue
            said = describe(item.new.node) or " ".join(
                [item.what, *([f"in {', '.join(item.parts)}"] if item.parts else [])]
            )
            kind = "class" if isinstance(item.new.node, ast.ClassDef) else "function"
            yield Idea(kind, item.key, path, said)


def graft(
    found: Recognised, symbol: str, project: Path, locked: Lock, *, offline: bool
) -> tuple[MethodState, dict[str, bytes], tuple[str, ...]]:
    """Return a fork's method as a hook: how much of it runs, the files that change, and features to add first.

    Raises:
        UsageError: the fork has no such method.
        CheckFailed: it needs what no project has.
    """
    package = locked.options.package
    fork = found.code
    ours = (method for method in found.methods if method.given is not None and method.name == symbol)
    method = next(ours, None) or find_method(fork, symbol)
    if method is None:
        raise UsageError(
            f"the fork has no estimator and no loss {symbol}",
            hint=f"`vextract graft {found.copy.top}` lists what it has; rewards come by custom_reward_function.path",
        )
    paths = [
        *readers.list_python_below(project, package),
        *(f"config/{path.relative_to(project / 'config').as_posix()}" for path in (project / "config").rglob("*.yaml")),
    ]
    data = {path: readers.read_bytes(project / path) for path in paths}
    texts = {path: text.decode() for path, text in data.items() if path.endswith(".py")}
    try:
        hook = make_hook(fork, method, texts, package)
    except NoPlace as reason:
        raise CheckFailed(
            f"{method.kind} {method.name} cannot run here: {reason}", hint="nothing was written"
        ) from None
    place = f"{package}/{FILE}"
    files = {place: hook.text.encode()}
    _, source = open_upstream(locked, offline=offline)
    tree = {path: File(path, FileKind.HOOK, content) for path, content in data.items()}
    files |= add_own_keys(found.copy, source, tree, [hook.text[len(texts[place]) :]])
    files |= choose(files, data, (hook,), package, named=False)
    return state_of(hook, place), files, tuple(sorted({*hook.features} - {*locked.options.features}))
