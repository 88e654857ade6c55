"""What files that were copied from a run's checkout count on: variables that its script exports, data files, names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from extractor.importers.runs import templates
from extractor.importers.runs.files import contents
from extractor.importers.runs.files.copying import FOLDER
from extractor.importers.runs.files.needed import with_first
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over import registered
from extractor.importers.runs.taken_over.columns import Columns
from extractor.importers.runs.taken_over.recipient import Recipient, Taken
from extractor.importers.runs.unknowns import readable, unknowns
from extractor.pipeline.index.batch_keys import keys_read
from extractor.usecases.verify.scopes import Analysis
from extractor.values.tree import FileKind, Tree

_COPIED = ("custom/from_run/", "custom/verl_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_ANYONES = {"HOME", "PATH", "PWD", "USER"}
# What verl's trainer had computed before it scored, until 0.4.0, and a project computes after it: a manager that was
# copied gets what the engine says of the same tokens: lines before and behind the call of it in its hook.
_LENT = "old_log_probs"
# What has the engine say them.
_ASKED = "actor_rollout_ref.rollout.calculate_log_probs"
_CALLS = "        found = super().__call__("
_RETURNS = "        if isinstance(found, tuple):  # what is for each token"
_LENDS_THEM = f"""\
        if lends := "{_LENT}" not in data.batch and "rollout_log_probs" in data.batch:  # the engine's
            data.batch["{_LENT}"] = data.batch["rollout_log_probs"]
"""
_TAKES_BACK = f"""\
        if lends:
            del data.batch["{_LENT}"]
"""
_CONVERSATIONS, _LAST_OF_OTHERS = "conversations", "from typing import Any\n\n"
_MAKES = "makes them of prompts and responses, since the project's engines hand over none"
_LENDS = "hands over the engine's, since the trainer's are computed behind the reward here"
# What verl's SGLang rollout hands to managers, and a project's engines do not.
_MESSAGES = "messages"
_READS_MESSAGES = re.compile(rf"non_tensor_batch\[[\"']{_MESSAGES}[\"']\]")
_MADE_OF = f"""\
        if converses := "{_MESSAGES}" not in data.non_tensor_batch:
            data.non_tensor_batch["{_MESSAGES}"] = conversations(data, self.tokenizer)
"""
_LEFT_OUT = f"""\
        if converses:
            del data.non_tensor_batch["{_MESSAGES}"]
"""
_READS = {"os.getenv", "getenv", "os.environ.get", "environ.get", "os.environ.setdefault"}
# A path of a file that holds data: with a folder, and without anything that is filled in.
_DATA = re.compile(
    r"(?!https?:)[\w./~@=+-]*[\w~.]/[\w.@=+-]*\w\.(?:txt|jsonl?|csv|tsv|parquet|pkl|npy|npz|pt|db|ya?ml)"
)


def take(project: Recipient, environment: Mapping[str, str]) -> Taken:
    """Have the copies find what the run's script exports, and the data files of its checkout; say what is not there.

    Args:
        project: The project, with the copies.
        environment: What the run's command would see; secrets of it are not written down.
    """
    files, remarks = [], {}
    copies = _copies(project)
    columns = Columns(project, copies)
    converses = any(map(_READS_MESSAGES.search, copies.values()))
    lent = _are_lent(copies)
    tree = project.tree
    if converses and any(_CALLS in text for text in copies.values()):
        module = f"custom/{FOLDER}/{_CONVERSATIONS}.py"
        tree = project.with_hooks({module: templates.render(f"{_CONVERSATIONS}.py")}, {})
    for file in tree:
        if file.kind is FileKind.HOOK and file.path in copies:
            text, said = _with_variables(file.data.decode(), file.path, environment, project)
            text, more = _with_data(text, file.path, project)
            parsed = registered.tree_of(text)
            more += [*columns.unfed(parsed, file.path), *_undefined(parsed, file.path)]
            if lent and _CALLS in text:
                text = _around_the_call(text, _LENDS_THEM, _TAKES_BACK)
                more.append(Remark("batch", _LENT, "changed", f"{file.path} {_LENDS}"))
            if converses and _CALLS in text:
                text = _around_the_call(text, _MADE_OF, _LEFT_OUT)
                text = _importing(
                    text, f"from {project.package}.custom.{FOLDER}.{_CONVERSATIONS} import {_CONVERSATIONS}"
                )
                more.append(Remark("batch", _MESSAGES, "changed", f"{file.path} {_MAKES}"))
            remarks.update({(item.key, item.value, item.why): item for item in (*said, *more)})
            file = replace(file, data=text.encode())
        files.append(file)
    return Taken(Tree.of(files), list(remarks.values()))


def asking_the_engine(project: Recipient, before: Mapping[str, Any]) -> Taken:
    """Have the engine say its log-probabilities where a copy reads the trainer's, which it is handed these for."""
    copies = _copies(project)
    if _ASKED not in before or not any(_CALLS in text for text in copies.values()) or not _are_lent(copies):
        return Taken(project.tree)
    why = f"True: the run's reward manager reads {_LENT}"
    said = project.settings.get(_ASKED, before[_ASKED])
    return Taken(project.tree, [] if said else [Remark(_ASKED, said, "changed", why)], {_ASKED: True})


def _copies(project: Recipient) -> dict[str, str]:
    """Return the Python files that were copied from the run's checkout, by path."""
    below = tuple(f"{project.package}/{folder}" for folder in _COPIED)
    return {path: text for path, text in project.code.items() if path.startswith(below)}


def _are_lent(copies: Mapping[str, str]) -> bool:
    """Tell whether a copy reads the trainer's log-probabilities."""
    return any(_LENT in _keys(registered.tree_of(text)) for text in copies.values() if _LENT in text)


def _importing(hook: str, line: str) -> str:
    """Return a manager's hook with one more line among its imports of the project."""
    before, last, rest = hook.partition(_LAST_OF_OTHERS)
    imports, gap, behind = rest.partition("\n\n")
    return "".join([before, last, "\n".join(sorted([*imports.split("\n"), line])), gap, behind])


def _around_the_call(hook: str, before: str, behind: str) -> str:
    """Return a manager's hook with lines before and behind its call of the class that was copied."""
    return hook.replace(_CALLS, f"{before}{_CALLS}").replace(_RETURNS, f"{behind}{_RETURNS}")


def _with_variables(
    text: str, path: str, environment: Mapping[str, str], project: Recipient
) -> tuple[str, list[Remark]]:
    found, remarks = {}, []
    for name in sorted(set(_read_by(registered.tree_of(text))) & environment.keys() - _ANYONES):
        value = environment[name]
        if _SECRET.search(name) or unknowns(value):
            why = f"{path} reads it, and the run's script exports it: export it before a run"
            remarks.append(Remark(f"${name}", None, "to do", why))
            continue
        there = project.places.find(value) if "/" in value else None
        found[name] = value if there is None else str(there)
        why = f"{path} reads it, and sets it where nobody else has"
        remarks.append(Remark(f"${name}", readable(value), "changed", why))
    if found:
        lines = [f"os.environ.setdefault({name!r}, {value!r})" for name, value in found.items()]
        text = with_first(text, ["import os", "", "# As the run's script exports them.", *lines, ""])
    return text, remarks


def _read_by(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the variables that a module reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _READS and node.args:
            name = node.args[0]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in {"os.environ", "environ"}:
            name = node.slice
        else:
            continue
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


def _keys(tree: ast.Module) -> set[str]:
    """Return the keys that a file reads from batches."""
    return {key for _, key in keys_read(ast.walk(tree))}


def _undefined(tree: ast.Module, path: str) -> Iterator[Remark]:
    """Say which names a copy uses that nothing defines, in the checkout either: what comes by there fails."""
    imported = ast.Module([node for node in tree.body if not contents.is_launch(node)], [])
    lines: dict[str, int] = {}
    for use in Analysis(imported, "copy").uses():
        if not use.bound:
            lines.setdefault(use.chain[0], use.line)
    for name, line in sorted(lines.items()):
        why = f"{path}, line {line}, uses it, and nothing defines it: define or import it"
        yield Remark("name", name, "to do", why)


def _with_data(text: str, path: str, project: Recipient) -> tuple[str, list[Remark]]:
    """Name the checkout's data files by absolute paths, since a project is started elsewhere."""
    tree, remarks = registered.tree_of(text), []
    lines = text.encode().split(b"\n")
    written = [item for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for item in ast.walk(node)]
    calls = [node for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.Assign, ast.arguments, ast.keyword))]
    given = {id(child) for node in calls if not _writes(node) for child in ast.iter_child_nodes(node)}
    given -= set(map(id, written))
    for node in sorted(ast.walk(tree), key=lambda item: (-getattr(item, "lineno", 0), -getattr(item, "col_offset", 0))):
        if not isinstance(node, ast.Constant) or id(node) not in given or not isinstance(node.value, str):
            continue
        if _DATA.fullmatch(node.value) is None or node.lineno != node.end_lineno:
            continue
        there = project.places.find(node.value)
        if there is None:
            why = f"{path}, line {node.lineno}, names it: not here, put it there"
            remarks.append(Remark("file", node.value, "to do", why))
        elif not node.value.startswith(("/", "~")):
            registered.put_in_place(lines, node, repr(str(there)))
            remarks.append(Remark("file", node.value, "changed", f"{path} names it: here it is {there}"))
    return b"\n".join(lines).decode(), remarks[::-1]


def _writes(node: ast.AST) -> bool:
    """Tell whether a call writes the file that it names."""
    if not isinstance(node, ast.Call):
        return False
    modes = [*node.args[1:], *(item.value for item in node.keywords if item.arg == "mode")]
    texts = [str(item.value) for item in modes if isinstance(item, ast.Constant)]
    is_open = any(re.fullmatch(r"[wax]b?\+?|[wax]\+b", text) for text in texts)
    return is_open or ast.unparse(node.func).rpartition(".")[2].startswith(("to_", "save", "dump", "write"))
