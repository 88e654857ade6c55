"""Compare two definitions: signature, body, wording."""

import ast
from collections.abc import Iterator
from textwrap import dedent

from extractor.pipeline.index.syntax import is_docstring
from extractor.usecases.changes.changeset import ChangeKind

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def compare(old: str, new: str) -> tuple[ChangeKind, tuple[str, ...]]:
    """Compare two definitions.

    Comments, docstrings and layout are wording. Parameters, defaults, annotations, a class's bases, its fields and the
    signatures of its public methods are the signature; all else is the body.

    Args:
        old: Source text of one top-level statement.
        new: The other's.

    Returns:
        How they differ, and what differs, a short sentence each.
    """
    if old == new:
        return ChangeKind.UNCHANGED, ()
    before, after = _parse(old), _parse(new)
    if ast.dump(before) == ast.dump(after):
        return ChangeKind.WORDING, ()
    if isinstance(before, Function) and isinstance(after, Function):
        details = [*_compare_signatures(before, after)]
        more = [*_compare_decorators(before, after)]
        if not details:
            return ChangeKind.BODY, tuple(more)
        return ChangeKind.SIGNATURE, (*details, *more, *_compare_bodies(before, after))
    if isinstance(before, ast.ClassDef) and isinstance(after, ast.ClassDef):
        return _compare_classes(before, after)
    return ChangeKind.BODY, ()


def shape(text: str) -> str:
    """Return a definition's syntax without name, docstrings and comments."""
    node = _parse(text)
    if isinstance(node, (*Function, ast.ClassDef)):
        node.name = ""
    return ast.dump(node)


def _parse(text: str) -> ast.stmt:
    node = ast.parse(dedent(text)).body[0]
    for item in ast.walk(node):
        if isinstance(item, (*Function, ast.ClassDef)):
            body = [statement for statement in item.body if not is_docstring(statement)]
            item.body = body or [ast.Pass()]
    return node


def _compare_signatures(old: _Function, new: _Function) -> Iterator[str]:
    before, after = _map_parameters(old), _map_parameters(new)
    for name in before:
        if name not in after:
            yield f"parameter {name} gone"
    for name, (kind, annotation, default) in after.items():
        if name not in before:
            yield f"parameter {name} new{f' (default {default})' if default else ', required'}"
            continue
        was_kind, was_annotation, was_default = before[name]
        if kind != was_kind:
            yield f"parameter {name}: {was_kind}, now {kind}"
        if default != was_default:
            yield f"default of {name}: {was_default or 'none'} -> {default or 'none'}"
        if annotation != was_annotation:
            yield f"type of {name}: {was_annotation or 'none'} -> {annotation or 'none'}"
    common = [name for name in before if name in after and before[name][0] == after[name][0] == "positional"]
    if common != [name for name in after if name in common]:
        yield "parameters in another order"
    if _write_node(old.returns) != _write_node(new.returns):
        yield f"returns {_write_node(old.returns) or 'no type'} -> {_write_node(new.returns) or 'no type'}"
    if type(old) is not type(new):
        yield "async" if isinstance(new, ast.AsyncFunctionDef) else "no longer async"


def _map_parameters(node: _Function) -> dict[str, tuple[str, str, str]]:
    """Map parameter names to their kind, annotation and default, in order."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    kinds = ["positional only"] * len(given.posonlyargs) + ["positional"] * len(given.args)
    parts: list[tuple[str, str, ast.arg | None, ast.expr | None]] = [
        *(("", *part) for part in zip(kinds, positional, defaults, strict=True)),
        ("*", "rest", given.vararg, None),
        *(("", "keyword only", *part) for part in zip(given.kwonlyargs, given.kw_defaults, strict=True)),
        ("**", "rest", given.kwarg, None),
    ]
    return {
        f"{stars}{item.arg}": (kind, _write_node(item.annotation), _write_node(default))
        for stars, kind, item, default in parts
        if item is not None
    }


def _compare_bodies(old: _Function, new: _Function) -> Iterator[str]:
    if [ast.dump(item) for item in old.body] != [ast.dump(item) for item in new.body]:
        yield "body changed"


def _compare_decorators(old: _Function | ast.ClassDef, new: _Function | ast.ClassDef) -> Iterator[str]:
    before, after = (list(map(_write_node, node.decorator_list)) for node in (old, new))
    yield from (f"no longer decorated with @{text}" for text in before if text not in after)
    yield from (f"decorated with @{text}" for text in after if text not in before)


def _compare_classes(old: ast.ClassDef, new: ast.ClassDef) -> tuple[ChangeKind, tuple[str, ...]]:
    signature: list[str] = []
    body: list[str] = []
    bases = [", ".join(map(_write_node, (*node.bases, *(item.value for item in node.keywords)))) for node in (old, new)]
    if bases[0] != bases[1]:
        signature.append(f"bases {bases[0] or 'none'} -> {bases[1] or 'none'}")
    body.extend(_compare_decorators(old, new))
    before, after = _map_fields(old), _map_fields(new)
    signature.extend(f"field {name} gone" for name in before if name not in after)
    for name, declared in after.items():
        default = declared.partition(" = ")[2]
        if name not in before:
            signature.append(f"field {name} new{f' (default {default})' if default else ', required'}")
        elif before[name] != declared:
            signature.append(f"field {name}: {before[name]} -> {declared}")
    was, now = _map_values(old), _map_values(new)
    body.extend(f"{name} gone" for name in was if name not in now)
    body.extend(f"{name} new" for name in now if name not in was)
    body.extend(f"{name}: {text} -> {now[name]}" for name, text in was.items() if now.get(name, text) != text)
    _compare_methods(old, new, signature, body)
    return (ChangeKind.SIGNATURE if signature else ChangeKind.BODY), (*signature, *body)


def _compare_methods(old: ast.ClassDef, new: ast.ClassDef, signature: list[str], body: list[str]) -> None:
    before = {item.name: item for item in old.body if isinstance(item, Function)}
    after = {item.name: item for item in new.body if isinstance(item, Function)}
    for name, method in before.items():
        if name not in after:
            (signature if _is_public(name) else body).append(f"{name}() gone")
        elif ast.dump(method) != ast.dump(after[name]):
            details = [f"{name}(): {detail}" for detail in _compare_signatures(method, after[name])]
            (signature if _is_public(name) else body).extend(details)
            body.extend(f"{name}(): {detail}" for detail in _compare_decorators(method, after[name]))
            body.extend(f"{name}(): {detail}" for detail in _compare_bodies(method, after[name]))
    # What only came changes nothing for those who use the class.
    body.extend(f"{name}() new" for name in after if name not in before)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__")


def _map_fields(node: ast.ClassDef) -> dict[str, str]:
    """Map annotated fields to "type = default"."""
    return {
        item.target.id: " = ".join(filter(None, (_write_node(item.annotation), _write_node(item.value))))
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def _map_values(node: ast.ClassDef) -> dict[str, str]:
    """Map names that a class assigns without annotation to their values."""
    return {
        target.id: _write_node(item.value)
        for item in node.body
        if isinstance(item, ast.Assign)
        for target in item.targets
        if isinstance(target, ast.Name)
    }


def _write_node(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)
