"""Algorithms that a run chooses by name and its own checkout registers: copied among the hooks, or found and named."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from extractor.importers.runs.files import FOLDER, Places, own_call
from extractor.importers.runs.files.needed import without_unused
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.values import limits, readers
from extractor.values.errors import UsageError

ESTIMATOR = "algorithm.adv_estimator"
LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
# The settings that choose, with what registers under a name, and what names those without a registry: a constant of a
# class, or what the setting is compared with.
_REGISTRIES = {
    ESTIMATOR: ("register_adv_est", r"(?ms)^class AdvantageEstimator\b(?:(?!^\S).)*?= *[\"']{}[\"']"),
    LOSS: ("register_policy_loss", r"loss_mode[^\n]*[\"']{}[\"']"),
}
# What a trainer of verl's calls with what it does not know by name, and what their `config` is a part of.
_GIVEN = {
    ESTIMATOR: {"token_level_rewards", "response_mask", "config", "index", "reward_baselines"},
    LOSS: {
        "old_log_prob",
        "log_prob",
        "advantages",
        "response_mask",
        "loss_agg_mode",
        "config",
        "rollout_is_weights",
    },
}
# What has a project compute what it has at hand for them only then.
_COMPUTED = {
    (ESTIMATOR, "entropys"): {"local.recompute_old_log_probs": True},
    (ESTIMATOR, "old_log_probs"): {"local.recompute_old_log_probs": True},
    (LOSS, "entropys"): {"actor_rollout_ref.actor.calculate_entropy": True},
    (LOSS, "rollout_log_probs"): {"actor_rollout_ref.rollout.calculate_log_probs": True},
}
_REFERENCE = {"actor_rollout_ref.actor.use_kl_loss": True, "actor_rollout_ref.actor.kl_loss_coef": 0.0}
_SECTIONS = {ESTIMATOR: "algorithm", LOSS: own_call.LOSSES}
_TARGET, IMPORTED_BY, _COPIES = "custom/verl_algorithms", "custom/algorithms", f"custom/{FOLDER}"
_MOST_FILES = 4000
_MANAGER = re.compile(r"reward_manager|register")


def take(project: Recipient) -> Taken:
    """Copy what settings choose that a project does not have, and the checkout registers.

    `custom/algorithms.py` imports the copies.
    """
    settings, package = project.settings, project.package
    wanted = [
        (key, str(settings[key]), decorator)
        for key, (decorator, _) in _REGISTRIES.items()
        if settings.get(key) is not None and not is_known(project.code, key, str(settings[key]))
    ]
    if not wanted or not project.has(IMPORTED_BY):
        return Taken(project.tree)
    copying = project.copying()
    remarks: list[Remark] = []
    texts: dict[str, str] = {}
    reads: set[str] = set()
    computed: dict[str, Any] = {}
    for number, (key, name, decorator) in enumerate(wanted):
        found = next(_registering(project.places, decorator, name), None)
        if found is None:
            continue
        place, text, definition = found
        is_verls = place.startswith("verl/") or f"def {decorator}(" in text
        try:
            copied = copying.copy(text, [definition], version_of=place if is_verls else None)
        except (SyntaxError, UsageError):
            copying.undo()
            continue
        if copied.missing:
            copying.undo()
            why = "; ".join(copied.missing)
            remarks.append(Remark(key, name, "to do", f"{place} registers it, and cannot be imported here: {why}"))
            continue
        target = f"{_TARGET}{number + 1 if number else ''}"
        reads |= own_call.settings_read(copied.text, _SECTIONS[key])
        required, optional = (_not_given(text, definition, key, of) for of in (required_by, optional_by))
        at_hand = {item: column for item in (*required, *optional) if (column := own_call.at_hand(item))}
        own = _registering_only(copied.text, definition)
        texts[target] = _called_as_here(own, definition, key, project, lends=bool(at_hand))
        remarks += copied_remarks(key, name, place, f"{package}/{target}.py", copied)
        for argument, column in at_hand.items():
            needs = _computed_for(column, key, settings)
            remarks += [Remark(of, value, "changed", f"{definition} takes {argument}") for of, value in needs.items()]
            computed.update(needs)
        if lacking := [item for item in required if item not in at_hand]:
            why = (
                f"{package}/{target}.py: {definition} takes {', '.join(lacking)}, which only its own trainer hands over"
            )
            remarks.append(Remark(key, name, "to do", why))
        if spared := [item for item in optional if item not in at_hand]:
            why = f"{definition} may take {', '.join(spared)}, which only its own trainer hands over: None here"
            remarks.append(Remark(key, name, "changed", why))
    if not texts:
        return Taken(project.tree, remarks)
    files = {**{f"{target}.py": text for target, text in texts.items()}, **copying.files}
    if any(f"import {own_call.NAME}" in text for text in texts.values()):
        files.update({f"{_COPIES}/{module}.py": text for module, text in own_call.modules().items()})
    tree = project.with_hooks(files, dict.fromkeys(texts, IMPORTED_BY))
    return Taken(tree, remarks, computed, reads=tuple(sorted(reads)))


def _computed_for(column: str, key: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that have a project compute a column for an estimator or a loss."""
    if column == "ref_log_prob":
        return {} if settings.get("actor_rollout_ref.actor.use_kl_loss") else _REFERENCE
    return {name: value for name, value in _COMPUTED.get((key, column), {}).items() if settings.get(name) != value}


def _called_as_here(text: str, definition: str, key: str, project: Recipient, *, lends: bool) -> str:
    """Return a copy whose algorithm takes what the project gives it, and returns what the project takes."""
    decorator, _ = _REGISTRIES[key]
    of_projects = next((code for code in project.code.values() if f"def {decorator}(" in code), "")
    given = {name for name in _GIVEN[key] if name in of_projects} - {"reward_baselines"}
    package = f"{project.package}.{_COPIES.replace('/', '.')}"
    return own_call.called_as_here(text, definition, _SECTIONS[key], package, given, lends=lends)


def _registering(places: Places, decorator: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield files that register something under a name: their paths, texts and what they register.

    In these texts the name is a literal: a member of an enumeration is no member of the project's.
    """
    for place, text in python_files(places):
        if decorator not in text or name not in text:
            continue
        tree = tree_of(text)
        constants = constants_of(tree)
        for node in tree.body:
            for call in getattr(node, "decorator_list", ()):
                if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] != decorator:
                    continue
                argument = call.args[0] if call.args else ast.Constant(None)
                said = constants.get(ast.unparse(argument).removesuffix(".value"))
                if isinstance(argument, ast.Constant) and argument.value == name:
                    yield place, text, node.name  # type: ignore[attr-defined]
                elif said == name and argument.lineno == argument.end_lineno:
                    lines = text.encode().split(b"\n")
                    put_in_place(lines, argument, f'"{name}"')
                    yield place, b"\n".join(lines).decode(), node.name  # type: ignore[attr-defined]


def _registering_only(text: str, definition: str) -> str:
    """Return a copy that registers one algorithm: the project has those under the names of the others that it calls."""
    decorators = {decorator for decorator, _ in _REGISTRIES.values()}
    left = _undecorated(text, lambda name, called, _: name != definition and called in decorators)
    return left if left == text else without_unused(left)


def not_again(text: str, known: Collection[str]) -> str:
    """Return a copy that registers nothing under names that a project has something under."""
    return _undecorated(text, lambda _, called, said: "register" in called and said in known)


def _undecorated(text: str, is_out: Callable[[str, str, object], bool]) -> str:
    """Return a module's text without some decorators: of what name, called how, with which constant first."""
    lines = text.split("\n")
    for node in reversed(tree_of(text).body):
        for item in reversed(getattr(node, "decorator_list", ())):
            called = item.func if isinstance(item, ast.Call) else item
            first = item.args[0] if isinstance(item, ast.Call) and item.args else None
            said = first.value if isinstance(first, ast.Constant) else None
            if is_out(node.name, ast.unparse(called).rpartition(".")[2], said):  # type: ignore[attr-defined]
                del lines[item.lineno - 1 : item.end_lineno]
    return "\n".join(lines)


def put_in_place(lines: list[bytes], node: ast.expr, text: str) -> None:
    """Put a text in the place of an expression on one line of a file."""
    line = lines[node.lineno - 1]
    lines[node.lineno - 1] = line[: node.col_offset] + text.encode() + line[node.end_col_offset :]


def _not_given(text: str, definition: str, key: str, of: Callable[[ast.FunctionDef], list[str]]) -> list[str]:
    """Return the arguments of an algorithm that verl's trainers do not hand to those of others.

    Args:
        text: Of the module.
        definition: The function.
        key: The setting that chooses it.
        of: Which of its arguments.
    """
    for node in tree_of(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == definition:
            return [name for name in of(node) if name not in _GIVEN[key]]
    return []


def optional_by(function: ast.FunctionDef) -> list[str]:
    """Return the arguments that a function need not be given and that are None then."""
    given = [*function.args.posonlyargs, *function.args.args]
    defaults = zip(given[len(given) - len(function.args.defaults) :], function.args.defaults, strict=True)
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return [
        item.arg for item, default in (*defaults, *named) if isinstance(default, ast.Constant) and default.value is None
    ]


def required_by(function: ast.FunctionDef) -> list[str]:
    """Return the arguments that a function must be given."""
    given = [*function.args.posonlyargs, *function.args.args]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    needed = given[: len(given) - len(function.args.defaults)]
    return [item.arg for item in (*needed, *(item for item, default in named if default is None))]


def constants_of(tree: ast.Module) -> dict[str, object]:
    """Return the constants of a module's classes: `GRPO` of `AdvantageEstimator` by "AdvantageEstimator.GRPO"."""
    return {
        f"{node.name}.{target.id}": item.value.value
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        for target in item.targets
        if isinstance(target, ast.Name)
    }


def is_known(code: Mapping[str, str], key: str, name: str) -> bool:
    """Tell whether a package has the algorithm of a name: registered, or as a constant that its own code goes by.

    A constant of a file that was copied among the hooks says nothing: what goes by it may have stayed behind.

    Args:
        code: Its Python files' texts, by path.
        key: The setting that chooses it.
        name: Of the algorithm.
    """
    decorator, chosen_by = _REGISTRIES[key]
    decorated = re.compile(rf"{decorator}\(\s*[\"']{re.escape(name)}[\"']")
    named = re.compile(chosen_by.format(re.escape(name)))
    return any(decorated.search(text) or ("/custom/" not in path and named.search(text)) for path, text in code.items())


def place_of(name: str, places: Places) -> str | None:
    """Return the file and line of a run's checkout that knows a reward manager or an algorithm by its name."""
    quoted = re.compile(rf"[\"']{re.escape(name)}[\"']")
    chosen = [
        (not _MANAGER.search(line), f"{place}:{number}")
        for place, text in python_files(places)
        if quoted.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if quoted.search(line) and (_MANAGER.search(line) or re.match(r"\s*[A-Z_]+\s*=", line))
    ]
    return min(chosen, default=(True, None))[1]


def decorator_of(name: str) -> re.Pattern[str]:
    """Return what registers a reward manager under a name."""
    return re.compile(rf"@register\(\s*[\"']{re.escape(name)}[\"']")


def registered_by(text: str, registered: re.Pattern[str]) -> list[str]:
    """Return the names of the definitions that carry a decorator."""
    return [
        node.name
        for node in tree_of(text).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and any(registered.match(f"@{ast.unparse(item)}") for item in node.decorator_list)
    ]


def tree_of(code: str | Path) -> ast.Module:
    """Parse a file of a checkout, or its text. Nobody may have run it: one that is no Python defines nothing."""
    try:
        return readers.python(code if isinstance(code, str) else readers.read_bytes(code, limits.MAX_TEXT))
    except (OSError, SyntaxError, UsageError):
        return ast.Module([], [])


def python_files(places: Places) -> Iterator[tuple[str, str]]:
    """Yield the path, below its root, and the text of the checkout's Python files; `tree_of` parses one."""
    root = places.root
    if root is None:
        return
    try:
        below = readers.files_below(root, lambda folder: not folder.name.startswith("."))
        found = sorted(file for file in below if file.suffix == ".py")
    except OSError:
        return
    for file in found[:_MOST_FILES]:
        try:
            yield file.relative_to(root).as_posix(), readers.python_text(readers.read_bytes(file, limits.MAX_TEXT))
        except (OSError, SyntaxError, UsageError, UnicodeDecodeError):
            continue
