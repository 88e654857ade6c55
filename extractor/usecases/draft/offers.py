"""List the losses, estimators and reward managers that a release adds."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractor.pipeline.index import Index
from extractor.pipeline.source import Source
from extractor.usecases.draft.findings import Note
from extractor.values.errors import SourceError
from extractor.values.manifest import Manifest

_ALGORITHMS = "verl.trainer.ppo.core_algos"


def new_offers(manifest: Manifest, old: Source, new: Source) -> list[Note]:
    """Return a remark on each kind of thing that is newly registered."""
    before, after = Index(old), Index(new)
    notes = []
    for what, decorators in (
        ("advantage estimators", {"register_adv_est"}),
        ("policy losses", {"register_policy_loss"}),
    ):
        came = _registered(after, [_ALGORITHMS], decorators) - _registered(before, [_ALGORITHMS], decorators)
        if came:
            names = ", ".join(sorted(came))
            notes.append(Note("", f"new {what}: {names}. Which of them are worth a preset in `algorithms`?"))
    packages = sorted({module.rpartition(".")[0] for role in manifest.roles for module in role.modules})
    for package in packages:
        inside = [sorted(name for name in index.names if name.startswith(f"{package}.")) for index in (before, after)]
        known = _registered(before, inside[0], {"register"})
        came = _registered(after, inside[1], {"register"}) - known
        if known and came:
            names = ", ".join(sorted(came))
            notes.append(Note("", f"new in {package}: {names}. Do they belong to a role's `modules`?"))
    return notes


def _registered(index: Index, modules: Iterable[str], decorators: set[str]) -> set[str]:
    """Return the names under which these decorators register."""
    found: set[str] = set()
    for module in modules:
        if module not in index:
            continue
        try:
            statements = index[module].statements
        except SourceError:
            continue
        for statement in statements:
            for item in getattr(statement.node, "decorator_list", []):
                if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id in decorators:
                    found.update(_name(argument) for argument in item.args[:1])
    return found


def _name(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node).rpartition(".")[2].lower()
