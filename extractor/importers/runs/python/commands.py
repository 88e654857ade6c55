"""Functions that are commands of a program: their arguments are the command line's, by click, typer or fire."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from extractor.importers.runs.python import command_line, expressions
from extractor.importers.runs.python.parsing import unsaid, word_value
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.syntax import COMMANDS, DECLARES, FUNCTIONS, called
from extractor.importers.runs.python.values import Computed, Option, Outside, Own, Start, Unsaid

# Say of a parameter how the command line has it, as its default or beside its type.
_OPTION, _ARGUMENT = "Option", "Argument"
BY_TYPER, BY_FIRE = ("typer.run",), ("fire.Fire", "Fire")


def is_one(node: ast.AST) -> bool:
    """Tell whether a function is a command by what it is decorated with."""
    return any(called(item) in (*COMMANDS, "group", *DECLARES) for item in _decorators(node))


def is_by_click(function: Own) -> bool:
    """Tell whether a call of a function reads the command line."""
    found = [called(item) for item in _decorators(function.node)]
    return any(name in ("command", "group") for name in found) and (
        any(name in DECLARES for name in found) or not function.node.args.args
    )


def is_another(run: Run, node: ast.AST) -> bool:
    """Tell whether a function is a command, and the command line asks for another one."""
    every = [name for item in ast.walk(run.tree) if isinstance(item, FUNCTIONS) for name in _names(item)]
    mine = [*_names(node)]
    asked = [word for word in run.words or () if word in every]
    return bool(mine and asked) and asked[0] not in mine


def start(run: Run, function: Own, by: Sequence[str] = ()) -> Start:
    """Return the arguments that the command line gives a function.

    Args:
        run: The script.
        function: The function.
        by: What starts it; (): what it is decorated with.
    """
    made = Start()
    declared = dict(_by_click(run, function))
    options = declared or dict(_by_parameters(run, function, is_fire=by == BY_FIRE))
    if not declared and not by and not is_one(function.node):
        return made
    words = list(run.words or ())
    mine = next((name for name in _names(function.node) if name in words), None)
    if mine is not None:
        del words[: words.index(mine) + 1]
    found, left = command_line.said(words, options)
    if by == BY_FIRE:  # what has no flag goes to the arguments that have none, in order
        found |= dict(zip([name for name in options if name not in found], left, strict=False))
    for name, option in options.items():
        if name in found:
            made.items[name] = word_value(found[name], option, run)
        elif name in run.given:
            made.items[name] = run.entered(run.given[name])
        elif name in declared or isinstance(option.default, Computed):
            made.items[name] = unsaid(option, run)
    return made


def _decorators(node: ast.AST) -> list[ast.Call]:
    return [item for item in getattr(node, "decorator_list", ()) if isinstance(item, ast.Call)]


def _names(node: ast.AST) -> Iterator[str]:
    """Yield what a function is called as one of several commands: `@app.command("train")`."""
    for item in _decorators(node):
        if called(item) == "command" and isinstance(item.func, ast.Attribute):
            first = item.args[0] if item.args else next((kw.value for kw in item.keywords if kw.arg == "name"), None)
            name = first.value if isinstance(first, ast.Constant) else None
            yield name if isinstance(name, str) else str(getattr(node, "name", "")).replace("_", "-").lower()


def _by_click(run: Run, function: Own) -> Iterator[tuple[str, Option]]:
    for item in _decorators(function.node):
        if called(item) in DECLARES:
            given, _ = expressions.parts(item.args, function.scope, run)
            said = {each.arg: run.value_of(each.value, function.scope) for each in item.keywords if each.arg}
            texts = [text for text in given if isinstance(text, str) and not isinstance(text, Computed)]
            flags = tuple(text.partition("/")[0].strip() for text in texts if command_line.is_flag(text))
            longest = max(flags, key=lambda flag: (flag.startswith("--"), len(flag)), default="")
            named = [text for text in texts if text.isidentifier()]
            name = (named[0] if named else longest.lstrip("-").replace("-", "_")).lower()
            if name:
                offs = tuple(text.partition("/")[2].strip() for text in texts if "/" in text)
                yield name, _of_click(name, flags, offs, said)


def _of_click(name: str, flags: tuple[str, ...], offs: tuple[str, ...], said: dict[str, Any]) -> Option:
    nothing: Any = Unsaid(f"args.{name}")
    nargs = said.get("nargs")
    if not flags:
        default = said.get("default", Computed(f"args.{name}"))
        return Option(default, _kind(said.get("type"), default), (), nargs="*" if nargs == -1 else nargs)
    if offs or said.get("is_flag") is True:
        default = said.get("default", "flag_value" not in said and False)
        if "flag_value" in said:
            return Option(default, None, flags, action="store_const", const=said["flag_value"])
        return Option(default, None, flags, offs, command_line.BOTH_WAYS if offs else "store_true")
    default = said.get("default", Computed(f"args.{name}") if said.get("required") is True else nothing)
    default = nothing if default is None else default
    action = "append" if said.get("multiple") is True else "count" if said.get("count") is True else "store"
    return Option(default, _kind(said.get("type"), default), flags, action=action, nargs=nargs)


def _kind(declared: Any, default: Any) -> Any:
    """Return what makes a value of an option's text: what is declared, or what its default is of."""
    if isinstance(declared, Outside):
        return declared.name.removeprefix("builtins.").removeprefix("click.").lower()
    if isinstance(declared, Own):
        return declared
    if declared is None and type(default) in (int, float, str):
        return type(default).__name__
    return None if declared is None and isinstance(default, Unsaid) else ""


def _by_parameters(run: Run, function: Own, *, is_fire: bool) -> Iterator[tuple[str, Option]]:
    """Yield the options that a function's parameters are."""
    arguments = function.node.args
    every = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(every) - len(arguments.defaults)), *arguments.defaults]
    for item, default in [
        *zip(every, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]:
        if item.arg in ("self", "cls"):
            continue
        how = _described(item.annotation, default)
        needed = default is None or (how is default and bool(how.args) and ast.unparse(how.args[0]) == "...")
        default_value = Computed(f"args.{item.arg}") if needed else None
        flags = [f"--{item.arg.replace('_', '-')}", f"--{item.arg}"]
        texts = [run.value_of(text, function.scope) for text in (how.args if how is not None else ())]
        flags = [text for text in texts if command_line.is_flag(text)] or flags
        is_flag = _annotated(item.annotation) == "bool" or isinstance(getattr(default, "value", None), bool)
        kind = "" if is_fire else _annotated(item.annotation)
        if is_flag and not is_fire:
            yield item.arg, _both_ways(flags)
        elif not is_fire and ((default is None and how is None) or (how is not None and called(how) == _ARGUMENT)):
            yield item.arg, Option(default_value, kind, ())
        else:
            yield (
                item.arg,
                Option(default_value, kind, tuple(dict.fromkeys(flags)), nargs="?" if is_flag else None, const=True),
            )


def _both_ways(flags: Sequence[str]) -> Option:
    ons = tuple(dict.fromkeys(flag.partition("/")[0] for flag in flags))
    offs = tuple(flag.partition("/")[2] for flag in flags if "/" in flag)
    return Option(None, None, ons, offs, command_line.BOTH_WAYS)


def _described(annotation: ast.expr | None, default: ast.expr | None) -> ast.Call | None:
    """Return what says of a parameter how the command line has it; None: nothing does."""
    inside = annotation.slice if isinstance(annotation, ast.Subscript) else None
    parts = inside.elts if isinstance(inside, ast.Tuple) else []
    calls = [item for item in (default, *parts) if isinstance(item, ast.Call)]
    return next((item for item in calls if called(item) in (_OPTION, _ARGUMENT)), None)


def _annotated(annotation: ast.expr | None) -> str:
    """Return the type of a parameter, by name: of `Annotated[float, ...]` and `float | None` it is `float`."""
    if isinstance(annotation, ast.Subscript):
        inside = annotation.slice
        return _annotated(inside.elts[0] if isinstance(inside, ast.Tuple) else inside)
    if isinstance(annotation, ast.BinOp):
        return _annotated(annotation.left)
    return "" if annotation is None else ast.unparse(annotation).strip("'\"")
