"""Compare two definitions: signature, body, wording."""

import ast
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

from extractor.pipeline.index.syntax import is_docstring
from extractor.usecases.changes.changeset import ChangeKind
from extractor.values import readers

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SIGNATURE, _BODY, _CHANGED = ChangeKind.SIGNATURE, ChangeKind.BODY, "body changed"


class _Part(NamedTuple):
    """A part of a definition.

    Attributes:
        kind: What a change of it changes.
        text: What it is, as it is shown.
        computed: What of it numbers depend on.
        method: For a method: its definition.
    """

    kind: ChangeKind
    text: str = ""
    computed: str = ""
    method: _Function | None = None


class _Detail(NamedTuple):
    """One difference; `member` has the name of the method or field that may compute other numbers, or ""."""

    kind: ChangeKind
    text: str
    member: str | None = None


def compare(old: str, new: str) -> tuple[ChangeKind, tuple[str, ...], tuple[str, ...]]:
    """Compare two definitions.

    Comments, docstrings and layout are wording. Parameters, defaults, annotations, a class's bases, its fields and the
    signatures of its public methods are the signature; all else is the body.

    Args:
        old: Source text of one top-level statement.
        new: The other's.

    Returns:
        How they differ; what differs, a short sentence each; and what may compute other numbers: the definition's name,
        or "Class.member".
    """
    if old == new:
        return ChangeKind.UNCHANGED, (), ()
    before, after = _parse(old), _parse(new)
    if ast.dump(before) == ast.dump(after):
        return ChangeKind.WORDING, (), ()
    one, other = before.body[0], after.body[0]
    name = getattr(other, "name", "")
    alike = any(isinstance(one, kinds) and isinstance(other, kinds) for kinds in (_FUNCTIONS, ast.ClassDef))
    if not alike or len(before.body) + len(after.body) > 2:
        return _BODY, (), (name,) * bool(name)
    differences = sorted(_compare_parts(one, other), key=lambda item: item.kind is not _SIGNATURE)
    change = _SIGNATURE if differences[0].kind is _SIGNATURE else _BODY
    details = (item.text for item in differences if change is _SIGNATURE or item.text != _CHANGED)
    members = dict.fromkeys(item.member for item in differences if item.member is not None)
    return change, tuple(details), tuple(f"{name}.{member}".removesuffix(".") for member in members)


def _parse(text: str) -> ast.Module:
    node = readers.parse_python(dedent(text))
    for item in ast.walk(node):
        if isinstance(item, (*_FUNCTIONS, ast.ClassDef)):
            body = [statement for statement in item.body if not is_docstring(statement)]
            item.body = body or [ast.Pass()]
    return node


def _compare_parts(old: ast.stmt, new: ast.stmt) -> Iterator[_Detail]:
    before, after = (_list_parts(node) if isinstance(node, _FUNCTIONS) else _list_members(node) for node in (old, new))
    yield from (_Detail(part.kind, f"{label} gone") for label, part in before.items() if label not in after)
    for label, part in after.items():
        was = before.get(label)
        if was is None:
            # What only came changes nothing for those who use a class.
            text = f"{label} new{f': {part.text}' if part.text else ''}"
            yield _Detail(_BODY if part.method is not None else part.kind, text)
        elif part.method is not None and was.method is not None:
            for item in _compare_parts(was.method, part.method):
                member = None if item.member is None else label.removesuffix("()")
                yield _Detail(item.kind if part.kind is _SIGNATURE else _BODY, f"{label}: {item.text}", member)
        elif (was.text, was.computed) != (part.text, part.computed):
            shown = f"{label}: {was.text or 'nothing'} -> {part.text or 'nothing'}" if part.text != was.text else label
            member = label.partition("field ")[2] if was.computed != part.computed else None
            yield _Detail(part.kind, shown, member)
    if before.keys() == after.keys() and list(before) != list(after) and isinstance(new, _FUNCTIONS):
        yield _Detail(_SIGNATURE, "parameters in another order")


def _list_parts(node: _Function) -> dict[str, _Part]:
    """Map the parts of a function, by what they are called."""
    given, parts = node.args, dict[str, _Part]()
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    kinds = ["positional only "] * len(given.posonlyargs) + [""] * len(given.args)
    parameters: list[tuple[str, ast.arg | None, ast.expr | None]] = [
        *zip(kinds, positional, defaults, strict=True),
        ("*", given.vararg, None),
        *(("keyword only ", item, default) for item, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)),
        ("**", given.kwarg, None),
    ]
    for kind, item, default in parameters:
        if item is not None:
            text = " = ".join(filter(None, (_write(item.annotation) or "any" * bool(default), _write(default))))
            parts[f"parameter {item.arg}"] = _Part(_SIGNATURE, f"{kind}{text}".strip(), _write(default))
    parts["returns"] = _Part(_SIGNATURE, _write(node.returns))
    if isinstance(node, ast.AsyncFunctionDef):
        parts["async"] = _Part(_SIGNATURE)
    parts |= {f"@{_write(item)}": _Part(_BODY) for item in node.decorator_list}
    return {**parts, _CHANGED: _Part(_BODY, computed=ast.dump(ast.Module(node.body, [])))}


def _list_members(node: ast.stmt) -> dict[str, _Part]:
    """Map the parts of a class, by what they are called."""
    assert isinstance(node, ast.ClassDef)
    bases = ", ".join(map(_write, (*node.bases, *(item.value for item in node.keywords))))
    members = {"bases": _Part(_SIGNATURE, bases), **{f"@{_write(item)}": _Part(_BODY) for item in node.decorator_list}}
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            text = " = ".join(filter(None, (_write(item.annotation), _write(item.value))))
            members[f"field {_write(item.target)}"] = _Part(_SIGNATURE, text, text)
        elif isinstance(item, ast.Assign):
            members |= {_write(target): _Part(_BODY, _write(item.value)) for target in item.targets}
        elif isinstance(item, _FUNCTIONS):
            is_public = not item.name.startswith("_") or item.name in ("__init__", "__call__")
            members[f"{item.name}()"] = _Part(_SIGNATURE if is_public else _BODY, method=item)
    return members


def _write(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)
