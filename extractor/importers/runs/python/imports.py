"""What a training script imports: modules of its repository, which are followed, and names of others."""

from __future__ import annotations

import ast
from pathlib import Path

from extractor.importers.runs.python import files
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.values import Items, Outside, OwnModule, Ref, Scope
from extractor.values import readers
from extractor.values.errors import UsageError

# How many statements of other modules are followed when they are imported; the repository may have whole libraries.
_MOST_IMPORTED = 5_000
_ARGV = ("sys", "argv")


def bind(run: Run, node: ast.Import, scope: Scope) -> None:
    """Follow `import a.b`, `import a.b as c`."""
    for alias in node.names:
        whole = alias.name if alias.asname else alias.name.partition(".")[0]
        value = _module(run, whole, scope.path, 0) or Outside(whole)
        run.bind(ast.Name(alias.asname or whole, ast.Store()), value, scope)


def bind_from(run: Run, node: ast.ImportFrom, scope: Scope) -> None:
    """Follow `from a import b`, `from . import b`, `from a import *`."""
    module = _module(run, node.module or "", scope.path, node.level)
    name = f"{'.' * node.level}{node.module or ''}"
    inside = {} if module is None else run.items_of(Ref(module.frame)).items
    for alias in node.names:
        if alias.name == "*":
            run.items_of(Ref(scope.frames[0])).items |= {key: item for key, item in inside.items() if key[0] != "_"}
            continue
        value = inside.get(alias.name)
        if value is None and module is not None:
            value = _module(run, f"{node.module or ''}.{alias.name}".lstrip("."), scope.path, node.level)
        if value is None:
            value = (
                run.attribute(Outside(name), "argv", "")
                if (name, alias.name) == _ARGV
                else Outside(f"{name}.{alias.name}")
            )
        run.bind(ast.Name(alias.asname or alias.name, ast.Store()), value, scope)


def _module(run: Run, name: str, path: Path, level: int) -> OwnModule | None:
    """Return a module of the repository's, followed the first time; None: it is none of these."""
    is_verls = run.opens and name.partition(".")[0] == "verl" and not level
    file = None if is_verls else files.module_at(name, path, level, run.places)
    if file is None or file.resolve() == run.path.resolve():
        return None
    if file not in run.modules and run.imported > _MOST_IMPORTED:
        return None
    if file not in run.modules:
        frame = run.new(Items({"__name__": name, "__file__": file.resolve().as_posix()}, is_frame=True))
        run.modules[file] = OwnModule(frame.number, name)
        try:
            text = readers.read_text(file)
            tree = readers.python(text)
        except (OSError, SyntaxError, UsageError):
            return run.modules[file]
        run.trees[file] = (tree, text)
        before = run.steps
        run.result_of(tree.body, Scope((frame.number,), file))
        run.imported, run.steps = run.imported + run.steps - before, before
    found = run.modules[file]
    return found if found.frame in run.state.objects else None
