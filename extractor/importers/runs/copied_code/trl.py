"""The functions that score a run of TRL's, among the hooks of its project, and the reward manager that sums them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from extractor.importers.runs import templates
from extractor.importers.runs.copied_code.code import required_by, tree_of
from extractor.importers.runs.copied_code.managers import IMPORTED_BY
from extractor.importers.runs.copied_code.target import HEAD, CopyResult, TargetProject, copied_remarks
from extractor.importers.runs.definitions import needed_part, with_first
from extractor.importers.runs.other_libraries.translation import ScoredBy
from extractor.importers.runs.unsupported_keys import Remark
from extractor.pipeline.index import Module
from extractor.values.errors import UsageError

_KEY, _NAME = "reward_funcs", "trl"
_FUNCTIONS, _MANAGER = "custom/trl_rewards", "custom/trl_reward_manager"
# Prompts of a project's files are conversations; a run whose functions take no messages has prompts of text.
_AS_TEXT = """
    def _messages(self, data: Any, row: int) -> Any:
        return self._prompt(data, row)  # the functions take prompts and completions as text
"""
_READS_MESSAGES = re.compile(r"\[[\"']content[\"']\]|\.get\([\"']content[\"']")
_LOADS, _PROMPT_KEY = "from_pretrained(", "data.prompt_key"
# What TRL's trainers hand to a function; everything else is a column of the data.
_GIVEN = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}
_ENVIRONMENTS = "they score TRL's environments: write one of the project's, custom/env_wrapper.py, that rewards itself"
_WIDTH = 120


def take_rewards(project: TargetProject, scored_by: ScoredBy) -> CopyResult:
    """Copy the functions that score, with what they need, and have a reward manager call them."""
    if not project.has(IMPORTED_BY) or not project.has("rewards/functions"):
        return CopyResult(project.tree)
    names = ", ".join(scored_by.functions)
    copying = project.copying(*([] if scored_by.folder is None else [scored_by.folder]))
    why = ""
    try:
        copied = copying.copy(_needed(scored_by), scored_by.functions)
    except (SyntaxError, UsageError, OSError) as error:
        return CopyResult(project.tree, [Remark(_KEY, names, "to do", f"not copied: {error}")])
    texts = [copied.text, *copying.files.values()]
    columns = _columns(texts, scored_by.functions)
    if copied.missing:
        why = f"they cannot be imported here: {'; '.join(dict.fromkeys(copied.missing))}"
    if "environments" in columns:
        why = _ENVIRONMENTS
    if why:
        return CopyResult(project.tree, [Remark(_KEY, names, "to do", why)])
    defined = {name for text in texts for name in Module("file", "file.py", text).bindings}  # TRL's take conversations
    is_text = defined.issuperset(scored_by.functions) and not any(map(_READS_MESSAGES.search, texts))
    functions = f'{HEAD}"""The functions that score {scored_by.place}."""\n\n{copied.text.strip()}\n'
    manager = _manager(scored_by) + (_AS_TEXT if is_text else "")
    hooks = {f"{_FUNCTIONS}.py": functions, f"{_MANAGER}.py": manager, **copying.files}
    tree = project.with_hooks(hooks, {_MANAGER: IMPORTED_BY})
    target = f"{project.package}/{_FUNCTIONS}.py"
    remarks = copied_remarks(_KEY, names, scored_by.place, target, copied)
    form = "text: none of them reads a message's content" if is_text else 'conversations, [{"role", "content"}]'
    remarks.append(Remark(_KEY, names, "changed", f"they get prompts and completions as {form}"))
    if columns:
        remarks.append(Remark(_KEY, names, "to do", f"rows need what they take: {', '.join(columns)}"))
    if _LOADS in copied.text:
        why = f"{target} loads a model or a tokenizer when it is imported: put what the functions use of it there"
        remarks.append(Remark(_KEY, names, "to do", why))
    # Messages are a column of their own where the rows have them under another name.
    chat = {} if is_text or project.settings.get(_PROMPT_KEY, "prompt") == "prompt" else {"data.return_raw_chat": True}
    return CopyResult(tree, remarks, {**project.with_manager(_NAME), **chat})


def _needed(scored_by: ScoredBy) -> str:
    """Return what a script defines and imports that its functions need."""
    module = Module("script", "script.py", scored_by.text)
    own = [name for name in scored_by.functions if name in module.bindings]
    part = needed_part(scored_by.text, own, {}) if own else ""
    imported = {
        name: module.imports[name] for name in scored_by.functions if name not in own and name in module.imports
    }
    lines = [
        f"from {item.module} import {name if item.name == name else f'{item.name} as {name}'}"
        for name, item in imported.items()
    ]
    return with_first(part, lines)


def _columns(texts: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the columns of the data that functions must be given."""
    functions = [node for text in texts for node in tree_of(text).body if isinstance(node, ast.FunctionDef)]
    asked = [item for node in functions if node.name in names for item in required_by(node)]
    return list(dict.fromkeys(item for item in asked if item not in _GIVEN))


def _manager(scored_by: ScoredBy) -> str:
    """Return the hook that sums what the functions give."""
    if scored_by.is_open:
        helpers, parts = "FunctionsRewardManager, Part, unique_names", _open_parts(scored_by)
    else:
        listed = [
            f'    Part("{name}", {name}, form_of({name}), {weight}),'
            for name, weight in zip(scored_by.functions, scored_by.weights, strict=True)
        ]
        helpers, parts = "FunctionsRewardManager, Part", "\n".join(["PARTS = [", *listed, "]"])
    imported = ", ".join(sorted(scored_by.functions))
    if len(f"from .trl_rewards import {imported}") > _WIDTH:
        imported = "(\n" + "".join(f"    {name},\n" for name in sorted(scored_by.functions)) + ")"
    return templates.render(
        "trl_reward_manager.py", place=scored_by.place, imported=imported, helpers=helpers, parts=parts, name=_NAME
    )


def _open_parts(scored_by: ScoredBy) -> str:
    """Return the parts where one name stands for a function, or for a list of them."""
    name, weights = scored_by.functions[0], [*scored_by.weights]
    return (
        f"FUNCTIONS = {name} if isinstance({name}, list) else [{name}]\n"
        f"WEIGHTS = {'[1.0] * len(FUNCTIONS)' if weights == [1.0] else weights}\n"
        "PARTS = [\n"
        "    Part(name, function, form_of(function), weight)\n"
        "    for name, function, weight in zip(unique_names(FUNCTIONS), FUNCTIONS, WEIGHTS, strict=True)\n"
        "]"
    )
