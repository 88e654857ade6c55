"""Collect the names that decorators register: estimators, losses, reward managers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from extractor.pipeline.generate import Generated
from extractor.pipeline.index import Module
from extractor.pipeline.index.syntax import attribute_chain
from extractor.pipeline.slicer import KeptModule, NotKept
from extractor.usecases.changes.changeset import RegistryChange
from extractor.values.modules import list_imports, module_name

# By the name of the decorator, or of its module where the decorator is just called `register`.
_TITLES = {
    "register_adv_est": "advantage estimators",
    "register_policy_loss": "policy losses",
    "reward_manager": "reward managers",
}


def compare_registries(old: Generated, new: Generated) -> tuple[RegistryChange, ...]:
    """Compare what the vendored code of two projects registers."""
    before, after = registered(old), registered(new)
    return tuple(
        RegistryChange(
            registry=title,
            kept=tuple(sorted(before.get(title, set()) & after.get(title, set()))),
            gained=tuple(sorted(after.get(title, set()) - before.get(title, set()))),
            lost=tuple(sorted(before.get(title, set()) - after.get(title, set()))),
        )
        for title in sorted({*before, *after})
    )


def registered(generated: Generated) -> dict[str, set[str]]:
    """Return registry -> the names in it."""
    modules = {module_name(module.target_path): module for module in generated.found.modules}
    found: dict[str, set[str]] = {}
    for module in modules.values():
        substituted = {item.statement for item in module.substitutes}
        for index in module.kept:
            node = module.body[index]
            if index in substituted or not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            for decorator, argument in _calls(node):
                title = _registry(generated, modules, module, decorator)
                name = _text(argument, module)
                if title is not None and name is not None:
                    found.setdefault(title, set()).add(name)
    return found


def _calls(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the decorators that are called with something: their names, and the first argument."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.args:
            yield decorator.func.id, decorator.args[0]


def _registry(generated: Generated, modules: dict[str, KeptModule], user: KeptModule, name: str) -> str | None:
    """Return the registry that a decorator fills; None for a decorator that fills none."""
    home, symbol = user, name
    for imported, original, local in list_imports(user.body, user.upstream_path):
        if local == name:
            try:
                target = generated.found.resolve_import(user.module, imported, original)
            except NotKept:
                return None
            if target is None or target.name is None or target.module not in modules:
                return None
            home, symbol = modules[target.module], target.name
            break
    if symbol not in _registering(home.module, home.upstream_path, home.source):
        return None
    parent = home.module.split(".")[-2]
    return _TITLES.get(symbol) or _TITLES.get(parent) or f"{home.module}:{symbol}"


@lru_cache(maxsize=64)
def _registering(name: str, path: str, source: str) -> frozenset[str]:
    return frozenset(Module(name, path, source).registering)


def _text(node: ast.expr, module: KeptModule) -> str | None:
    """Return a decorator's first argument as a string: a literal, or a member of an enumeration of its module."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    chain = attribute_chain(node)
    for item in module.body if len(chain) == 2 else ():
        if isinstance(item, ast.ClassDef) and item.name == chain[0]:
            for member in item.body:
                if (
                    isinstance(member, ast.Assign)
                    and isinstance(member.value, ast.Constant)
                    and [target.id for target in member.targets if isinstance(target, ast.Name)] == [chain[1]]
                ):
                    return str(member.value.value)
    return ".".join(chain) or None
