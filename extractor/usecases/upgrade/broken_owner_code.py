"""Find imports, losses and estimators that the owner must change."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from extractor.pipeline.generate import Generated
from extractor.pipeline.plan import Plan, Verdict
from extractor.usecases.owner_code import OwnerCode
from extractor.usecases.upgrade.verdicts import FileOnDisk
from extractor.usecases.verify.name_analysis import Analysis, ImportedName, ModuleNames
from extractor.values import readers
from extractor.values.modules import is_package, name_module
from extractor.values.moved_modules import rename_dotted_name
from extractor.values.reachable import find_reachable

_KINDS = {"register_policy_loss": "get_policy_loss_fn", "register_adv_est": "get_adv_estimator_fn"}
_OF_BATCH = "global_batch_info"
_RETURNED = {2: "(loss, metrics), a tensor and a dict", 4: "(loss, clip fraction, KL, lower clip fraction)"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Modules(ModuleNames):
    """The modules of a project in memory."""

    def __init__(self, files: Mapping[str, str]) -> None:
        paths = {name_module(path): path for path in files if path.endswith(".py")}
        super().__init__(paths, cache(lambda module: _analyse(paths[module], files[paths[module]])))

    def answers(self, item: ImportedName, package: str) -> bool:
        """Tell whether an import resolves, also by a former module name."""
        now = replace(item, module=rename_dotted_name(item.module, package))
        whole = rename_dotted_name(f"{item.module}.{item.name}", package)
        return whole in self.known or not (self.explain_missing(item) and self.explain_missing(now))

    def find(self, name: str) -> list[str]:
        """Return the modules that define a name."""
        return sorted(
            module
            for module in self.modules
            if name in (analysis := self.analyse(module)).names and all(item.name != name for item in analysis.imports)
        )


def find_broken_owner_code(
    code: Sequence[OwnerCode],
    users: Mapping[str, str],
    emitted: Mapping[str, bytes],
    disk: Mapping[str, FileOnDisk],
    generated: Generated,
    plan: Plan,
    release: str,
) -> tuple[OwnerCodeProblem, ...]:
    """Check the owner's imports, losses and estimators after the upgrade.

    Args:
        code: The owner's, before the upgrade.
        users: From `find_users`: vendored files that become the owner's.
        emitted: What was emitted, by path.
        disk: What lies there, by path.
        generated: What is emitted now.
        plan: What becomes of each file.
        release: What the new side is called.
    """
    conflicts, emitted_now = plan.paths(Verdict.CONFLICT), {file.path: file.data for file in generated.tree}
    theirs, writes = ({path: _decode(data) for path, data in side.items()} for side in (emitted_now, plan.writes()))
    there = {path: _decode(item.data) for path, item in disk.items() if item.data is not None}
    losses, own = [], {path: there[path] for path in users if path in there}
    for item in code:
        text, was = item.text, item.emitted or ""
        if item.path in writes and item.path not in conflicts:
            text, was = writes[item.path], theirs.get(item.path, "")
        losses.append((item.path, text, was))
        if item.path not in (*conflicts, *plan.removals()):
            own[item.path] = text
    before = {path: text for path, text in there.items() if path in emitted} | {item.path: item.text for item in code}
    after = {**theirs, **{path: text for path, text in writes.items() if path not in conflicts}, **own}
    old, new, package, broken = _Modules(before), _Modules(after), generated.options.package, []
    for path, text in sorted(own.items()):
        for imported in _analyse(path, text).imports:
            module, name = imported.module, imported.name or imported.module
            if module.partition(".")[0] != package or old.explain_missing(imported) or new.answers(imported, package):
                continue
            places = new.find(name)
            where = f", but in {' and '.join(places[:2])}" if places else ", nor elsewhere"
            problem = f"with {release} it is no longer in {module}{where}"
            broken.append(OwnerCodeProblem(path, imported.line, name, problem))
    return (*broken, *find_outdated_losses(emitted, emitted_now, losses, release))


def _analyse(path: str, text: str) -> Analysis:
    return Analysis(text, name_module(path), is_package=is_package(path))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@dataclass(frozen=True)
class OwnerCodeProblem:
    """Describes a change needed in the owner's import, loss or estimator."""

    file: str
    line: int
    name: str
    problem: str


@dataclass(frozen=True)
class Caller:
    """How a release calls what is registered.

    Attributes:
        arguments: The keywords that it always passes.
        values: How many values it takes back.
        sums_micro_batches: True if it sums the micro-batches' losses, each normalised by the whole batch.
    """

    arguments: frozenset[str]
    values: int
    sums_micro_batches: bool


def find_outdated_losses(
    before: Mapping[str, bytes], after: Mapping[str, bytes], own: Iterable[tuple[str, str, str]], release: str
) -> tuple[OwnerCodeProblem, ...]:
    """Return what to change in the owner's losses and estimators.

    Args:
        before, after: What was and is emitted, by path.
        own: Path, text and emitted text of each file with code of the owner's, as they will be.
        release: What the new side is called.
    """
    old, new = _find_callers(before), _find_callers(after)
    parsed = [
        (path, readers.parse_python_or_nothing(text), readers.parse_python_or_nothing(emitted))
        for path, text, emitted in own
    ]
    helpers = {node.name: node for _, tree, _ in parsed for node in _list_functions(tree)}
    outdated = []
    for path, tree, emitted in parsed:
        known = {ast.dump(node) for node in _list_functions(emitted)}
        for node in _list_functions(tree):
            decorators = {_name_called(item) for item in node.decorator_list if ast.dump(node) not in known}
            for kind in (kind for kind in _KINDS if kind in decorators):
                problems = list(_compare(node, old.get(kind), new.get(kind), helpers, release))
                outdated += [OwnerCodeProblem(path, node.lineno, node.name, "; ".join(problems))] if problems else []
    return tuple(outdated)


def _find_callers(files: Mapping[str, bytes]) -> dict[str, Caller]:
    """Map decorators to how the vendored code calls what they register."""
    callers: dict[str, Caller] = {}
    for path, data in files.items():
        if "/vendored/" not in path or not any(f"{name}(".encode() in data for name in _KINDS.values()):
            continue
        for node in _list_functions(readers.parse_python_or_nothing(data.decode("utf-8", "replace"))):
            for kind, getter in _KINDS.items():
                caller = _describe_caller(node, getter)
                if caller is not None:
                    callers[kind] = caller
    return callers


def _describe_caller(function: _Function, getter: str) -> Caller | None:
    """Return how a function calls a registry entry, or None."""
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    calls = {ast.unparse(node.targets[0]) for node in assigned if _name_called(node.value) == getter}
    for node in assigned:
        if isinstance(node.value, ast.Call) and _name_called(node.value) in calls:
            target, keywords = node.targets[0], node.value.keywords
            values = len(target.elts) if isinstance(target, ast.Tuple) else 1
            names = {item.arg for item in keywords if item.arg}
            spread = {ast.unparse(item.value) for item in keywords if item.arg is None}
            for other in assigned:
                if isinstance(other.value, ast.Dict) and ast.unparse(other.targets[0]) in spread:
                    names |= {str(key.value) for key in other.value.keys if isinstance(key, ast.Constant)}
            of_batch = any(isinstance(item, ast.Attribute) and item.attr == _OF_BATCH for item in ast.walk(function))
            return Caller(frozenset(names), values, of_batch)
    return None


def _compare(
    function: _Function, old: Caller | None, new: Caller | None, helpers: Mapping[str, _Function], release: str
) -> Iterator[str]:
    """Yield changes that one function needs; none if calls are alike."""
    if new is None or old == new:
        return
    counts = set(_count_returned(function, helpers, ()))
    if (old is None or old.values != new.values) and counts and not counts & {new.values, 0}:
        returned, wanted = max(counts), _RETURNED.get(new.values, f"{new.values} values")
        yield f"it returns {returned} value{'s'[: returned > 1]}, and {release} takes {new.values}: return {wanted}"
    names = {item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    lacking = sorted(new.arguments - names - (old.arguments if old is not None else set()))
    if lacking and function.args.kwarg is None:
        them = "it" if len(lacking) == 1 else "them"
        yield f"{release} passes {', '.join(lacking)} as well: take {them}, or **others"
    if old is not None and old.sums_micro_batches == new.sums_micro_batches:
        return
    # The function, and all of the owner's that it calls.
    reached = find_reachable([function], lambda node: [helpers[name] for name in _list_called(node) & helpers.keys()])
    inside = [item for node in reached for item in ast.walk(node)]
    reads = any(isinstance(item, ast.Attribute) and item.attr == _OF_BATCH for item in inside)
    named = reads or any(isinstance(item, ast.Constant) and item.value == _OF_BATCH for item in inside)
    others = {name for node in reached for name in _list_called(node)} - helpers.keys()
    delegates = any(name == "get_policy_loss_fn" or name.startswith("compute_policy_loss") for name in others)
    if new.sums_micro_batches and not named and not delegates:
        yield (
            f"it averages a micro-batch, but {release} sums micro-batches, so the gradient grows with their number:"
            " agg_loss(..., **config.global_batch_info)"
        )
    elif reads and not new.sums_micro_batches:
        yield f"{release} has no config.{_OF_BATCH}: agg_loss(...) without it"


def _count_returned(function: _Function, helpers: Mapping[str, _Function], above: tuple[str, ...]) -> Iterator[int]:
    """Yield how many values each `return` gives; 0 if unknown."""
    nodes, stack = [], list[ast.AST](function.body)
    while stack:
        node = stack.pop()
        nodes.append(node)
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            stack += ast.iter_child_nodes(node)
    assigned = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    left = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    while left:
        value = left.pop()
        if isinstance(value, ast.Name) and isinstance(assigned.get(value.id), (ast.Tuple, ast.Call)):
            value = assigned[value.id]
        if isinstance(value, ast.Tuple):
            yield len(value.elts) if not any(isinstance(item, ast.Starred) for item in value.elts) else 0
        elif isinstance(value, ast.Call) and (name := _name_called(value)) in helpers and name not in above:
            yield from _count_returned(helpers[name], helpers, (*above, name))
        else:
            yield 1 if isinstance(value, (ast.BinOp, ast.UnaryOp)) or _name_called(value) in ("agg_loss", "mean") else 0


def _list_called(function: _Function) -> set[str]:
    return {_name_called(node) for node in ast.walk(function)}


def _name_called(node: ast.AST) -> str:
    """Return the last name of a called function, or ""."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def _list_functions(tree: ast.Module) -> Iterator[_Function]:
    yield from (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
