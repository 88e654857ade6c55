"""The functions that score a run of TRL's, among the hooks of its project, and the reward manager that sums them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TypeGuard

from extractor.importers.runs import templates
from extractor.importers.runs.files.copying import FOLDER
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.other_libraries.translation import ScoredBy
from extractor.importers.runs.taken_over.managers import IMPORTED_BY
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.pipeline.index import Module
from extractor.pipeline.index.syntax import first_line
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.reachable import reachable

NAME = "trl"
FUNCTIONS, MANAGER = "custom/trl_rewards", "custom/trl_reward_manager"
_HEAD = "# vextract:hook  yours: written once, never touched by an upgrade\n"
# Prompts of a project's files are conversations; a run whose functions take no messages has prompts of text.
_AS_TEXT = """
    def _messages(self, data: Any, row: int) -> Any:
        return self._prompt(data, row)  # the functions take prompts and completions as text
"""
_ENVIRONMENTS, _LOADS, _TOKENIZER = "environments", "from_pretrained(", "AutoTokenizer.from_pretrained"
_PROMPT_KEY = "data.prompt_key"
# Under which a message has its text.
_SAYS = "content"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ARGUMENTS = {"self", "cls", "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}


def take(project: Recipient, scored_by: ScoredBy | None) -> Taken:
    """Copy the functions that score, with what they need, and have a reward manager call them."""
    if scored_by is None or not project.has(IMPORTED_BY) or not project.has("rewards/functions"):
        return Taken(project.tree)
    names = ", ".join(scored_by.functions)
    copying = project.copying(() if scored_by.folder is None else (scored_by.folder,))
    try:
        copied = copying.copy(_needed(scored_by), scored_by.functions)
    except (SyntaxError, UsageError, OSError) as error:
        return Taken(project.tree, [Remark("reward_funcs", names, "to do", f"not copied: {error}")])
    texts = [copied.text, *copying.files.values()]
    columns, more = _columns(texts, scored_by.functions)
    if _ENVIRONMENTS in columns:
        why = "they score TRL's environments: make one of the project's, custom/env_wrapper.py, which rewards by itself"
        return Taken(project.tree, [Remark("reward_funcs", names, "to do", why)])
    if copied.missing:
        why = f"they cannot be imported here: {'; '.join(dict.fromkeys(copied.missing))}"
        return Taken(project.tree, [Remark("reward_funcs", names, "to do", why)])
    is_text = not _imported(texts, scored_by.functions) and not any(map(_reads_messages, texts))
    tree = project.with_hooks(
        {
            f"{FUNCTIONS}.py": f'{_HEAD}"""The functions that score {scored_by.place}."""\n\n{copied.text.strip()}\n',
            f"{MANAGER}.py": _manager(scored_by) + (_AS_TEXT if is_text else ""),
            **copying.files,
        },
        {MANAGER: IMPORTED_BY},
    )
    target = f"{project.package}/{FUNCTIONS}.py"
    remarks = copied_remarks("reward_funcs", names, scored_by.place, target, copied)
    form = "text: none of them reads a message's content" if is_text else 'conversations, [{"role", "content"}]'
    remarks.append(Remark("reward_funcs", names, "changed", f"they get prompts and completions as {form}"))
    if columns:
        remarks.append(Remark("reward_funcs", names, "to do", f"rows need what they take: {', '.join(columns)}"))
    if more:
        why = f"rows need what they take, or they go without: {', '.join(more)}"
        remarks.append(Remark("reward_funcs", names, "to do", why))
    if _loads_data(copied.text, copying.files):
        why = f"{target} loads data when it is imported, as the script does to make them: put what they use there"
        remarks.append(Remark("reward_funcs", names, "to do", why))
    if _TOKENIZER in copied.text:
        remarks.append(Remark("reward_funcs", names, "changed", f"{target} loads the tokenizer of {scored_by.model}"))
    elif _LOADS in copied.text:
        why = f"{target} loads a model or a tokenizer when it is imported: put what the functions use of it there"
        remarks.append(Remark("reward_funcs", names, "to do", why))
    # Messages are a column of their own where the rows have them under another name.
    chat = {} if is_text or project.settings.get(_PROMPT_KEY, "prompt") == "prompt" else {"data.return_raw_chat": True}
    return Taken(tree, remarks, {**project.with_manager(NAME), **chat})


def _manager(scored_by: ScoredBy) -> str:
    if scored_by.is_open:
        helpers, parts = "FunctionsRewardManager, Part, unique_names", _open_parts(scored_by)
    else:
        listed = [
            f'    Part("{name}", {name}, form_of({name}), {weight}),'
            for name, weight in zip(scored_by.functions, scored_by.weights, strict=True)
        ]
        helpers, parts = "FunctionsRewardManager, Part", "\n".join(["PARTS = [", *listed, "]"])
    imported = ", ".join(sorted(scored_by.functions))
    line = f"from .trl_rewards import {imported}"
    if len(line) > 120:
        imported = "(\n" + "".join(f"    {name},\n" for name in sorted(scored_by.functions)) + ")"
    return templates.render(
        "trl_reward_manager.py", place=scored_by.place, imported=imported, helpers=helpers, parts=parts, name=NAME
    )


def _open_parts(scored_by: ScoredBy) -> str:
    """Return the parts where one name stands for a function, or for a list of them, as the script makes it."""
    name, weights = scored_by.functions[0], [*scored_by.weights]
    counted = "[1.0] * len(FUNCTIONS)" if weights == [1.0] else str(weights)
    return (
        f"FUNCTIONS = {name} if isinstance({name}, list) else [{name}]\n"
        f"WEIGHTS = {counted}\n"
        "PARTS = [\n"
        "    Part(name, function, form_of(function), weight)\n"
        "    for name, function, weight in zip(unique_names(FUNCTIONS), FUNCTIONS, WEIGHTS, strict=True)\n"
        "]"
    )


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _is_import(node: ast.stmt) -> TypeGuard[ast.Import | ast.ImportFrom]:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _needed(scored_by: ScoredBy) -> str:
    """Return what a script defines and imports that functions of it need; what it does as a program is left out.

    Of a model that is loaded with its tokenizer the tokenizer alone is, where it alone is needed.
    """
    text, names = scored_by.text, scored_by.functions
    module = Module("script", "script.py", text)
    used = {
        name: set().union(*(_read_by(module, index) for index in indices)) for name, indices in module.bindings.items()
    }
    anyway = {item.local for each in module.statements if _is_import(each.node) for item in each.imports}
    tried = {each.index: {item.local for item in each.imports} - anyway for each in module.statements}
    for each in module.statements:  # `try: import a` and the like, which may do more
        for name in tried[each.index]:
            used.setdefault(name, set()).update(_read_by(module, each.index))
    tokenizers = dict(_tokenizers(module)) if scored_by.model is not None else {}
    kept = reachable(names, lambda name: set() if name in tokenizers else used.get(name, set()))
    lines = readers.lines_of(text)
    parts: list[str] = []
    for statement in module.statements:
        imported = {item.local for item in statement.imports} if _is_import(statement.node) else tried[statement.index]
        if not {*statement.binds, *imported} & kept:
            continue
        if statement.index in tokenizers.values() and not kept & set(statement.binds) - tokenizers.keys():
            name = next(name for name, index in tokenizers.items() if index == statement.index)
            parts.append(f"from transformers import AutoTokenizer\n\n{name} = {_TOKENIZER}({scored_by.model!r})")
        elif imported and not statement.binds and _is_import(statement.node):
            aliases = [item for item in statement.node.names if (item.asname or item.name).partition(".")[0] in kept]
            parts.append(ast.unparse(_with(statement.node, aliases)))
        else:
            start, end = first_line(statement.node), statement.node.end_lineno
            is_definition = isinstance(statement.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            text = "\n".join(line.rstrip("\r\n") for line in lines[start:end])
            parts.append(f"\n\n{text}\n\n" if is_definition else text)
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(parts)).strip() + "\n"


def _tokenizers(module: Module) -> Iterator[tuple[str, int]]:
    """Yield the names in `model, tokenizer = X.from_pretrained(...)` that are a tokenizer's, and their statements."""
    for statement in module.statements:
        node = statement.node
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Call):
            names = [item.id for item in node.targets[0].elts if isinstance(item, ast.Name)]
            if len(names) == 2 and ast.unparse(node.value.func).endswith(".from_pretrained"):
                yield names[1], statement.index


def _read_by(module: Module, index: int) -> set[str]:
    """Return the names that a statement reads from its module, in the methods of a class as well."""
    parts = (None, *(method.position for method in module.methods(index)))
    return set().union(*(module.uses(index, part).names for part in parts))


def _with(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    return ast.Import(names) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, names, node.level)


def _reads_messages(text: str) -> bool:
    """Tell whether a module reads what a message says: `completion[0]["content"]`, `message.get("content")`."""
    for node in ast.walk(readers.python(text)):
        said: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            said = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            said = node.args[0] if node.args else None
        if isinstance(said, ast.Constant) and said.value == _SAYS:
            return True
    return False


def _imported(texts: list[str], names: tuple[str, ...]) -> set[str]:
    """Return those of functions that are a package's, whose text is not here; TRL's own take conversations."""
    trees = [readers.python(text) for text in texts]
    there = {node.name for tree in trees for node in tree.body if isinstance(node, (*_FUNCTIONS, ast.ClassDef))}
    return set(names) - there.union(*(_assigned(tree) for tree in trees))


def _loads_data(text: str, files: Mapping[str, str]) -> bool:
    """Tell whether a copy calls, as it is imported, what loads data in a module that came with it."""
    tree = readers.python(text)
    calls = [node for value in _assigned(tree).values() for node in ast.walk(value) if isinstance(node, ast.Call)]
    called = {ast.unparse(node.func).partition(".")[0] for node in calls}
    copies = [node for node in tree.body if isinstance(node, ast.ImportFrom) and f".{FOLDER}." in f"{node.module}."]
    imported = {item.asname or item.name for node in copies for item in node.names}
    return bool(called & imported) and any("load_dataset(" in file for file in files.values())


def _columns(texts: list[str], names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the columns of the data that functions name: without a default or as an item, and with None or `get`."""
    needed: dict[str, None] = {}
    wanted: dict[str, None] = {}
    trees = [readers.python(text) for text in texts]
    defined = {node.name: node for tree in trees for node in tree.body if isinstance(node, (*_FUNCTIONS, ast.ClassDef))}
    made = {name: value for tree in trees for name, value in _assigned(tree).items()}
    for name in names:
        node, given = _called(name, defined, made)
        parts = [part for tree in trees for part in ast.walk(tree)] if node is None and name in made else [node]
        for part in parts:
            if isinstance(part, _FUNCTIONS) and (part is node or "completions" in _arguments_of(part)):
                for column, is_needed in (*_asked(part, given), *_items(part)):
                    (needed if is_needed else wanted)[column] = None
    return list(needed), [name for name in wanted if name not in needed]


def _arguments_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def _asked(node: ast.FunctionDef | ast.AsyncFunctionDef, given: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield the columns among a function's arguments, and whether they have to be there."""
    missing: list[ast.expr | None] = [None] * (len(node.args.posonlyargs) + len(node.args.args))
    values = [*missing[len(node.args.defaults) :], *node.args.defaults, *node.args.kw_defaults]
    for name, value in zip(_arguments_of(node), values, strict=True):
        is_none = isinstance(value, ast.Constant) and value.value is None
        if name not in _ARGUMENTS and name not in given and (value is None or is_none):
            yield name, value is None


def _items(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, bool]]:
    """Yield what a function takes of its further arguments by name, and whether it has to be there."""
    rest = node.args.kwarg.arg if node.args.kwarg is not None else None
    for part in ast.walk(node):
        key: ast.expr | None = None
        if isinstance(part, ast.Subscript) and ast.unparse(part.value) == rest:
            key = part.slice
        elif isinstance(part, ast.Call) and ast.unparse(part.func) == f"{rest}.get" and part.args:
            key = part.args[0]
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value not in _ARGUMENTS:
            yield key.value, isinstance(part, ast.Subscript)


def _called(
    name: str, defined: Mapping[str, ast.AST], made: Mapping[str, ast.expr]
) -> tuple[ast.AST | None, Collection[str]]:
    """Return what is called in the end where a name is, and the arguments that it has already."""
    value = made.get(name)
    if not isinstance(value, ast.Call):
        return defined.get(name), ()
    maker = ast.unparse(value.func).rpartition(".")[2]
    if maker == "partial" and value.args:
        inner = defined.get(ast.unparse(value.args[0]))
        first = [item.arg for item in inner.args.args[: len(value.args) - 1]] if isinstance(inner, _FUNCTIONS) else []
        return inner, {*first, *(item.arg for item in value.keywords if item.arg is not None)}
    whole = defined.get(maker)
    if isinstance(whole, ast.ClassDef):
        return next((item for item in whole.body if getattr(item, "name", "") == "__call__"), None), ()
    parts = [*ast.walk(whole)] if whole is not None else []
    returned = {ast.unparse(item.value) for item in parts if isinstance(item, ast.Return) and item.value is not None}
    return next((item for item in parts if isinstance(item, _FUNCTIONS) and item.name in returned), None), ()
