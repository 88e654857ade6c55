"""The reward manager that a run chooses by name and a project has not: taken from its checkout, or from its release."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from itertools import islice

from extractor.importers.runs.files import own_call
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over import own_verl, registered
from extractor.importers.runs.taken_over.manager_classes import known_as
from extractor.importers.runs.taken_over.manager_hooks import (
    PROGRAMS,
    handed_by_programs,
    hook_of,
    scores_each,
    support,
)
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.values.errors import UsageError

KEYS = ("reward.reward_manager.name", "reward_model.reward_manager")
# They give every response the score that `naive` gives it, in processes side by side: that does for them.
AS_NAIVE, PLAIN = frozenset({"prime", "remote"}), "naive"
# What a run hands to the class besides what verl does.
_GIVEN = re.compile(r"reward(?:_model)?\.reward_kwargs\.(\w+)")
# What a fork's trainer reads for its class: `threshold=config.reward_model.threshold`.
_READ = re.compile(r"reward(?:_model)?\.(\w+)")
# An argument that is a setting: `config.actor_rollout_ref.rollout.n`.
_OF_CONFIG = re.compile(r"config\.(\w+(?:\.\w+)+)")
_ARGUMENTS = re.compile(r'^MANAGER_ARGUMENTS = "(.+)"$', re.MULTILINE)
_REGISTERED = re.compile(r"@register\w*\(\s*[\"']([\w-]+)[\"']")
TARGET, IMPORTED_BY = "custom/verl_reward_manager", "custom/reward_manager"
# What the hook calls a class with, besides the batch.
_CALLED_WITH = {"self", "config", "data", "return_dict", "step", "global_step", "global_steps"}
_CALLED_WITH |= {
    f"{column}{more}" for column in ("data_source", "extra_info", "reward_model", "uid") for more in ("", "s")
}
# So many classes of one name are tried.
_MOST = 4


def names(code: Mapping[str, str]) -> set[str]:
    """Return the names of the reward managers that a package has, by its Python files' texts and paths."""
    found = {name for path, text in code.items() if "reward" in path for name in _REGISTERED.findall(text)}
    return found | {PLAIN}  # which is in no registry in projects of 0.4.0


def take(project: Recipient) -> Taken:
    """Copy the reward manager that a run names, with what it imports; `custom/reward_manager.py` imports it."""
    settings, package = project.settings, project.package
    key = next((key for key in KEYS if settings.get(key)), None)
    if key is None or not project.has(IMPORTED_BY):
        return Taken(project.tree)
    name, known = str(settings[key]), names(project.code)
    if name in known:
        return Taken(project.tree)
    classes = known_as(name, project.places, project.source)
    if name in AS_NAIVE:  # but for a class of the checkout's own that is called so
        classes = (found for found in classes if own_verl.is_own(project, found.place))
    refused: list[Remark] = []
    for found in islice(classes, _MOST):
        if found.scores_each and not scores_each(project):
            why = f"{found.place} scores one response at a time, which projects of verl {project.release} do not"
            refused.append(Remark(key, name, "to do", why))
            continue
        copying = project.copying(() if found.folder is None else (found.folder,))
        try:
            copied = copying.copy(f"from {found.module} import {found.cls}\n", [found.cls])
        except (SyntaxError, UsageError, OSError):
            continue
        if copied.missing:
            why = f"{found.place} has it, and cannot be imported here: {'; '.join(copied.missing)}"
            refused.append(Remark(key, name, "to do", why))
            continue
        text = hook_of(name, found, copied.text.strip(), copying, project)
        files = {path: registered.not_again(content, known) for path, content in copying.files.items()}
        tree = project.with_hooks({f"{TARGET}.py": text, **support(text), **files}, {TARGET: IMPORTED_BY})
        remarks = copied_remarks(key, name, found.place, f"{package}/{TARGET}.py", copied)
        remarks += asking(key, name, found.cls, copying.files.values())
        reads = own_call.read_of_the_whole([text, *copying.files.values()]) if own_call.OWN_SETTINGS in text else ()
        return Taken(tree, remarks, places=(f"{found.module.replace('.', '/')}.py",), reads=tuple(sorted(reads)))
    return Taken(project.tree, refused[:1])


def asking(key: str, name: str, cls: str, texts: Iterable[str]) -> list[Remark]:
    """Say what a copied class must be called with that only its own trainer hands over.

    Args:
        key, name: The setting that names it.
        cls: What it is called.
        texts: Where it may be defined.
    """
    nodes = [node for text in texts if f"class {cls}" in text for node in registered.tree_of(text).body]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == cls]
    call = next(filter(None, (_method(node, "__call__") for node in classes)), None)
    more = [given for given in registered.required_by(call) if given not in _CALLED_WITH] if call else []
    more = more if call is None or "data" in registered.required_by(call) else more[1:]
    why = f"{cls} is called with {', '.join(more)}, which only its own trainer hands over"
    return [Remark(key, name, "to do", why)] if more else []


def not_taken(project: Recipient) -> list[str]:
    """Return the settings that are arguments which the class of a run's manager does not take: verl passes them by."""
    name = next((project.settings[key] for key in KEYS if project.settings.get(key)), PLAIN)
    name = PLAIN if name in AS_NAIVE - names(project.code) else name
    decorated = registered.decorator_of(str(name))
    text = next((text for text in project.code.values() if decorated.search(text)), "")
    taken = _arguments(text, decorated)
    given = [(key, found[1]) for key in project.settings if (found := _GIVEN.match(key))]
    # What it does not take it may still read, in the config.
    return [] if taken is None else [key for key, name in given if name not in taken and f'"{name}"' not in text]


def handed_over(project: Recipient, unknown: Iterable[str]) -> dict[str, str]:
    """Return the settings of no release that a run's copied manager is made with, and the keys that hand them over."""
    section, taken = _arguments_of_copy(project)
    read = {key: match[1] for key in unknown if (match := _READ.fullmatch(key))}
    return {key: f"{section}.{argument}" for key, argument in read.items() if argument in taken}


def made_of_settings(project: Recipient) -> dict[str, str]:
    """Return the arguments that a run's program makes its copied manager with of other settings: `n=config.x.n`.

    Returns:
        References to the settings, by the keys that hand them over.
    """
    section, taken = _arguments_of_copy(project)
    if not taken:
        return {}
    handed, _ = handed_by_programs(map(project.text, PROGRAMS), "")
    of_config = {name: match[1] for name, value in handed.items() if (match := _OF_CONFIG.fullmatch(value))}
    return {
        f"{section}.{name}": f"${{{key}}}"
        for name, key in sorted(of_config.items())
        if name in taken and key in project.settings and f"{section}.{name}" not in project.settings
    }


def read_by_copy(project: Recipient, unknown: Iterable[str]) -> set[str]:
    """Return the settings of no release that a run's copied manager finds in its config, and reads."""
    hook = project.code.get(f"{project.package}/{TARGET}.py", "")
    if own_call.OWN_SETTINGS not in hook:
        return set()
    classes = re.findall(r"^from \S+ import (\w+)$", hook, re.MULTILINE)
    code = "\n".join(text for text in project.code.values() if any(f"class {name}" in text for name in classes))
    return {key for key in unknown if _asks_for(key).search(code)}


def _asks_for(key: str) -> re.Pattern[str]:
    """Return how code asks a config for a setting: `config.trainer.task`, `trainer["task"]`, `.get("task")`."""
    section, last = map(re.escape, key.split(".")[-2:]) if "." in key else ("config", re.escape(key))
    return re.compile(rf"\b{section}\.{last}\b|[\[(]\s*[\"']{last}[\"']")


def _arguments_of_copy(project: Recipient) -> tuple[str, set[str]]:
    """Return the section of settings that a run's copied manager is made with, and the arguments that it takes."""
    name = next((project.settings[key] for key in KEYS if project.settings.get(key)), "naive")
    below = f"{project.package}/custom/"
    texts = [text for path, text in project.code.items() if path.startswith(below) and "class " in text]
    decorated = registered.decorator_of(str(name))
    registers = next((text for text in texts if decorated.search(text)), "")
    found = _ARGUMENTS.search(project.code.get(f"{project.package}/settings/reward_keys.py", ""))
    if not registers or found is None:
        return "", set()
    nodes = [node for text in texts for node in registered.tree_of(text).body if isinstance(node, ast.ClassDef)]
    classes = {node.name: node for node in nodes}
    made = (_made_with(cls, classes) for cls in registered.registered_by(registers, decorated))
    return found[1], set().union(*made)


def _made_with(name: str, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """Return the arguments that a class is made with, or the first of those it extends that names them."""
    for _ in range(5):
        node = classes.get(name)
        if node is None:
            break
        if (found := _arguments_of(node)) is not None:
            return found
        name = next((base.id for base in node.bases if isinstance(base, ast.Name)), "")
    return set()


def _arguments(text: str, decorated: re.Pattern[str]) -> set[str] | None:
    """Return what the class under a decorator is made with; None: anything, or it does not say."""
    names = registered.registered_by(text, decorated)
    nodes = ast.walk(registered.tree_of(text))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name in names]
    return next((found for node in classes if (found := _arguments_of(node)) is not None), None)


def _arguments_of(node: ast.ClassDef) -> set[str] | None:
    """Return what a class is made with by its own definition; None: anything, or it does not say."""
    made = _method(node, "__init__")
    if made is None or made.args.kwarg is not None:
        return None
    return {argument.arg for argument in (*made.args.args, *made.args.kwonlyargs)}


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return the method that a class itself defines under a name."""
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)
