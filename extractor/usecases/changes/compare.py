"""Compare two definitions: signature, body, wording."""

import ast
from collections.abc import Iterator
from textwrap import dedent

from extractor.pipeline.index.syntax import is_docstring
from extractor.usecases.changes.changeset import ChangeKind

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SIGNATURE, _BODY, _CHANGED = ChangeKind.SIGNATURE, ChangeKind.BODY, "body changed"
_Details = Iterator[tuple[ChangeKind, str]]


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
        found = list(_compare_functions(before, after))
    elif isinstance(before, ast.ClassDef) and isinstance(after, ast.ClassDef):
        found = list(_compare_classes(before, after))
    else:
        return ChangeKind.BODY, ()
    signature, body = ([said for kind, said in found if kind is wanted] for wanted in (_SIGNATURE, _BODY))
    if isinstance(before, Function) and not signature:
        body = [said for said in body if said != _CHANGED]
    return (_SIGNATURE if signature else _BODY), (*signature, *body)


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


def _compare_functions(old: _Function, new: _Function) -> _Details:
    yield from ((_SIGNATURE, said) for said in _compare_signatures(old, new))
    yield from _compare_decorators(old, new)
    if [ast.dump(item) for item in old.body] != [ast.dump(item) for item in new.body]:
        yield _BODY, _CHANGED


def _compare_decorators(old: _Function | ast.ClassDef, new: _Function | ast.ClassDef) -> _Details:
    before, after = (list(map(_write_node, node.decorator_list)) for node in (old, new))
    yield from ((_BODY, f"no longer decorated with @{text}") for text in before if text not in after)
    yield from ((_BODY, f"decorated with @{text}") for text in after if text not in before)


def _compare_classes(old: ast.ClassDef, new: ast.ClassDef) -> _Details:
    bases = [", ".join(map(_write_node, (*node.bases, *(item.value for item in node.keywords)))) for node in (old, new)]
    if bases[0] != bases[1]:
        yield _SIGNATURE, f"bases {bases[0] or 'none'} -> {bases[1] or 'none'}"
    yield from _compare_decorators(old, new)
    was, now = _map_fields(old), _map_fields(new)
    yield from ((_SIGNATURE, f"field {name} gone") for name in was if name not in now)
    for name, declared in now.items():
        default = declared.partition(" = ")[2]
        if name not in was:
            yield _SIGNATURE, f"field {name} new{f' (default {default})' if default else ', required'}"
        elif was[name] != declared:
            yield _SIGNATURE, f"field {name}: {was[name]} -> {declared}"
    was, now = _map_values(old), _map_values(new)
    yield from ((_BODY, f"{name} gone") for name in was if name not in now)
    yield from ((_BODY, f"{name} new") for name in now if name not in was)
    yield from ((_BODY, f"{name}: {text} -> {now[name]}") for name, text in was.items() if now.get(name, text) != text)
    before, after = ({item.name: item for item in node.body if isinstance(item, Function)} for node in (old, new))
    for name, method in before.items():
        is_public = not name.startswith("_") or name in ("__init__", "__call__")
        if name not in after:
            yield _SIGNATURE if is_public else _BODY, f"{name}() gone"
        elif ast.dump(method) != ast.dump(after[name]):
            for kind, said in _compare_functions(method, after[name]):
                yield kind if is_public else _BODY, f"{name}(): {said}"
    # What only came changes nothing for those who use the class.
    yield from ((_BODY, f"{name}() new") for name in after if name not in before)


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
