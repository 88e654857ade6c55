"""Slice a fork's training loop: what makes columns and arguments around its advantages."""

import ast
import builtins
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from extractor.importers.adopt.fork_code import Closure, ForkCode, ForkModule, find_calls
from extractor.importers.config.templates import render
from extractor.importers.python_text.backward import BackwardSlicer, list_needed
from extractor.importers.python_text.unset_branches import drop_unset_branches
from extractor.pipeline.index.syntax import read_attribute_chain
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CALLED = "compute_advantage"
# Where a loop has its responses, and where it begins to learn from them.
_ROLLED_OUT = re.compile(r"generate_sequences|gen_batch_output|\.repeat\(")
_UPDATES = re.compile(r"update_(actor|policy)\(")
# What is not so in a project, and what no project has.
_NOT_HERE = re.compile(r"launch_reward_fn_async|\buse_rm\b")
_REFUSED = re.compile(r"_wg\b(?!\.world_size)|\bray\b|generate_sequences")
# What the code finds in a project besides its own: the trainer's attributes, and names.
_GIVEN = {f"self.{name}" for name in ("config", "global_steps", "total_training_steps", "tokenizer", "reward_fn")}
_GIVEN.add("self.actor_rollout_wg")  # of which a project has the number of processes alone
_REWARD = "self.reward_fn"
_LOCALS = {"self", "metrics", "timing_raw", "now"}
_PARTS = {"batch", "non_tensor_batch", "meta_info"}
# What a loop makes rewards of, and what of it says nothing: what upstream calls, takes apart, measures and fills up.
REWARDS = frozenset({"token_level_scores", "token_level_rewards"})
_OF_ROWS = frozenset({"extra_info", "reward_model"})
_USUAL = re.compile(
    r"metrics|^print|^pass$|import |^reward_\w+ = [\w\[\]'\"{}]*$|"
    r"^batch = (batch( if batch is None.*)?$|DataProto\.concat|batch\[(kept_traj|:))|"
    r"\b(apply_kl_penalty|compute_advantage|union|repeat|reward_fn|\w*compute\w*_reward|extract_reward|from_single_dict"
    r"|compute_rm_score|dataprotoitem_to_dataproto|pop|_balance_batch|compute_values|select)(\.remote)?\("
)
# What of a trainer's file a project has called by then, or need not call: rows of its batch are a DataProto already.
_VERLS = {"apply_kl_penalty", "compute_advantage", "compute_response_mask", "dataprotoitem_to_dataproto"}


@dataclass(frozen=True)
class LoopSlice:
    """The statements of a fork's loop that make what its methods need.

    Attributes:
        module: Where the loop is.
        trainer: Its class and function.
        batch: What the loop calls the batch.
        first: What makes the attributes that it keeps between steps.
        before: What comes before the advantages.
        after: What comes between these and the update.
        handed: Names that are handed on to what comes later.
        kept: The attributes that `first` makes.
        columns: What it writes to the batch.
    """

    module: ForkModule
    trainer: str
    batch: str
    first: list[ast.stmt] = field(repr=False)
    before: list[ast.stmt] = field(repr=False)
    after: list[ast.stmt] = field(repr=False)
    handed: tuple[str, ...]
    kept: tuple[str, ...]
    columns: frozenset[str]

    def write(self, closure: Closure, only: str, renamed: Mapping[str, str], slug: str) -> list[str]:
        """Return functions that do it in a project; the closure gets what they need.

        Args:
            closure: Of the file.
            only: The estimator without which they do nothing; empty: none.
            renamed: What the project calls estimators of the fork's, and the fork's names.
            slug: Behind the functions' names.
        """
        handed = [name for name in self.handed if name not in self.kept]
        before = [*map(ast.unparse, self.before)]
        if self.first:
            body = "\n".join(map(ast.unparse, self.first)).replace("\n", "\n    ")
            before.insert(0, f"if not hasattr(self, {self.kept[0]!r}):\n    config = self.config\n    {body}")
        before += [f"self.{name} = {name}" for name in handed]
        after = [*(f"{name} = self.{name}" for name in handed), *map(ast.unparse, self.after)] if self.after else []
        closure.imports["before_phase"] = f"from {closure.package}.hooks import before_phase"
        found = [] if "as_trainer" in closure.taken else [render("fork_trainer.py").strip()]
        closure.imports |= {"copy": "import copy", "os": "import os"}
        closure.imports["SimpleNamespace"] = "from types import SimpleNamespace"
        replaces = re.compile(rf"(?m)^ *(?:[\w, ]*\b)?{re.escape(self.batch)}\b[\w, ]* = ")
        for phase, lines in (("advantages", before), ("update", after)):
            if lines:
                code = "\n".join(lines).replace("\n", "\n    ")
                given = {"phase": phase, "loop": self, "only": only, "renamed": dict(renamed), "slug": slug}
                text = render("fork_loop.py", **given, code=code, is_replaced=replaces.search(code) is not None)
                decorator, function = text.split("\n", 1)
                found.append(f"{decorator}\n{closure.rewrite(self.module, function).strip()}")
        return found


def slice_loop(
    fork: ForkCode,
    columns: Iterable[str],
    names: Iterable[str],
    near: ForkModule | None = None,
    *,
    chooses_rows: bool = False,
) -> LoopSlice | None:
    """Return what makes columns of the batch and names of the loop; None if it cannot come along.

    Args:
        fork: The fork.
        columns: Keys of the batch.
        names: Locals, or attributes of the trainer, that the loop hands to `compute_advantage`.
        near: Where to look first.
        chooses_rows: With what takes rows out of the batch.
    """
    for loop in sorted(_list_loops(fork), key=lambda item: item.module is not near):
        found = _slice_around(loop, set(columns), set(names), chooses_rows)
        if found is not None and (found.columns or names or chooses_rows):
            return found
    return None


class _Loop(NamedTuple):
    """A method of a fork that calls `compute_advantage`, without branches that no setting of the fork's takes."""

    module: ForkModule
    own: ast.ClassDef | None
    around: ast.FunctionDef
    call: ast.Call

    @property
    def is_upstreams(self) -> bool:
        """Whether upstream once had its class."""
        return self.own is not None and fingerprint_statement(self.own) in load_upstream_parts()


@cache
def _list_loops(fork: ForkCode) -> list[_Loop]:
    """Return the fork's training loops, those of launch scripts first; upstream's come last."""
    found = []
    for module in fork.list_callers(f"{_CALLED}("):
        methods = {id(around): around for _, around in find_calls(module, (_CALLED,)) if isinstance(around, _FUNCTIONS)}
        for method in methods.values():
            if method.args.args[:1] and method.args.args[0].arg == "self":
                around: Any = ast.parse(drop_unset_branches(ast.unparse(method), fork.is_set, fork.is_off)).body[0]
                calls = [part for part in ast.walk(around) if isinstance(part, ast.Call)]
                own = _find_class(module, method)
                chains = ((read_attribute_chain(part.func) or ("",), part) for part in calls)
                found += [_Loop(module, own, around, part) for chain, part in chains if chain[-1] == _CALLED]
    return sorted(found, key=lambda loop: loop.is_upstreams)


def list_notes(fork: ForkCode) -> set[str]:
    """Return the keys that the fork's loops write to `meta_info`."""
    texts = (ast.unparse(loop.around) for loop in _list_loops(fork))
    return {key for text in texts for key in re.findall(r"meta_info\['(\w+)'\] = ", text)}


def find_shaping(fork: ForkCode, upstream: Iterable[str]) -> list[str]:
    """Return statements by which only the fork's loop changes rewards."""
    known = {ast.unparse(leaf) for text in upstream for leaf in _list_leaves(ast.parse(text).body)}
    for loop in _list_loops(fork):
        if loop.is_upstreams:
            break
        batch, statements, start, place, end = _split_loop(loop.call, loop.around)
        made = _make_slicer(loop.module, batch).run(statements[start:place], set(), REWARDS | _OF_ROWS)
        others = [leaf for leaf in _list_leaves(statements[start:end]) if isinstance(leaf, ast.Assign)]
        itself = re.compile(rf"{re.escape(batch)}(\.\w+)?")  # or an attribute of it, which no project has
        replaced = [leaf for leaf in others if any(itself.fullmatch(ast.unparse(to)) for to in leaf.targets)]
        found = dict.fromkeys(map(ast.unparse, [*_list_leaves(made), *replaced]))
        return [text for text in found if text not in known and not _USUAL.search(text)]
    return []


def _list_leaves(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the statements that have no others in them."""
    for part in (part for node in nodes for part in ast.walk(node)):
        if isinstance(part, ast.stmt) and not getattr(part, "body", None):
            yield part


def _split_loop(
    call: ast.Call, around: ast.FunctionDef | ast.AsyncFunctionDef
) -> tuple[str, list[ast.stmt], int, int, int | None]:
    """Return a loop's batch, its statements and its parts' places.

    These are what follows the responses, the advantages, and the update.
    """
    batch = ast.unparse(call.args[0]) if call.args else "batch"
    nodes = [node for node in ast.walk(around) if isinstance(node, (ast.Name, ast.Assign))]
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == batch]
    same = {node.value.id for node in assigned if isinstance(node.value, ast.Name)}
    for node in nodes:  # where groups are filtered, a batch is gathered of several
        if isinstance(node, ast.Name) and node.id in same:
            node.id = batch
    statements = list(_flatten(around.body, call))
    place = next(index for index, item in enumerate(statements) if _has(item, call))
    start = max((i for i in range(place) if _ROLLED_OUT.search(ast.unparse(statements[i]))), default=-1) + 1
    end = next((i for i in range(place, len(statements)) if _updates(statements[i])), None)
    return batch, statements, start, place, end


def _slice_around(loop: _Loop, columns: set[str], names: set[str], chooses_rows: bool) -> LoopSlice | None:
    """Return the slice around one call of `compute_advantage`."""
    module, own, around, call = loop
    batch, statements, start, place, end = _split_loop(call, around)
    slicer = _make_slicer(module, batch, chooses_rows=chooses_rows)
    earlier = slicer.find_made(statements[:start])[0]
    asked_locals = {name for name in names if name in slicer.find_made(statements[:place])[0]}
    targets = asked_locals | {f"self.{name}" for name in names - asked_locals}
    asked, later = set(targets), set[str]()
    made = slicer.run(statements[start:place], asked, set(columns))
    later |= {name for name in asked if name.startswith("self.")} - _GIVEN
    after = slicer.run(statements[place + 1 : end], later, columns - slicer.find_made(made)[1])
    later_locals = {name for name in _find_free(module, batch, later) if not name.startswith("self.")}
    later_locals -= slicer.find_made(after)[0] - earlier - slicer.find_made(statements[start:place])[0]
    asked = targets | later_locals
    before = slicer.run(statements[start:place], asked, set(columns))
    state = {name for name in asked | later if name.startswith("self.")} - _GIVEN
    first, unmade = list[ast.stmt](), set(state)
    for item in own.body if own is not None and state else ():
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            first = slicer.run(list(_flatten(item.body, None)), unmade, set())
            unmade = _find_free(module, batch, unmade) - {"config"}
    lacking = _find_free(module, batch, asked) - state | unmade
    lacking -= slicer.find_made(before)[0] - earlier  # made where a condition holds: else the fork raises as well
    everything = [*first, *before, *after]
    if lacking or not everything or _REFUSED.search("\n".join(map(ast.unparse, everything))):
        return None
    trainer = f"{own.name}.{around.name}" if own is not None else around.name
    found = frozenset(columns & slicer.find_made(everything)[1])
    handed = tuple(sorted(asked_locals | later_locals))
    kept = tuple(sorted(name[5:] for name in slicer.find_made(first)[0] if name.startswith("self.")))
    return LoopSlice(module, trainer, batch, first, before, after, handed, kept, found)


def _make_slicer(module: ForkModule, batch: str, *, chooses_rows: bool = False) -> BackwardSlicer:
    """Return a slicer that keeps what functions of the loop's file do to its batch, too."""

    def is_own_work(node: ast.stmt) -> bool:
        if chooses_rows and (isinstance(node, ast.Continue) or _chooses_rows(node, batch)):
            return True
        value = node.value if isinstance(node, (ast.Assign, ast.Expr)) else None
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            return False
        is_given = any(ast.unparse(item) == batch for item in value.args)
        is_kept = isinstance(node, ast.Expr) or ast.unparse(node.targets[0]) == batch  # type: ignore[attr-defined]
        return is_given and is_kept and value.func.id not in _VERLS and value.func.id in module.by_name

    return BackwardSlicer(batch, _PARTS, _NOT_HERE, is_own_work, _change)


def _chooses_rows(node: ast.stmt, batch: str) -> bool:
    """Tell whether a statement makes another batch of the loop's."""
    is_it = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == batch
    return is_it and not _USUAL.search(ast.unparse(node))


def _find_free(module: ForkModule, batch: str, names: set[str]) -> set[str]:
    """Return the names that neither the module nor a project's hook has."""
    return names - {*dir(builtins), *module.by_name, *module.imports, *_LOCALS, *_GIVEN, batch}


def _change(node: Any) -> ast.stmt:
    """Return a statement that takes apart what a reward manager returns, or skips a batch, as a project has it."""
    if isinstance(node, ast.Continue):
        return ast.Return(ast.parse("now.batch[:0]", mode="eval").body)
    is_parts = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    statement: Any = copy.deepcopy(node)
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == _REWARD:
            call.args, call.keywords = [], [item for item in call.keywords if item.arg == "return_dict"]
            if is_parts and call is statement.value:
                call.keywords = [ast.keyword("parts", ast.Constant(len(node.targets[0].elts)))]
    return statement  # type: ignore[no-any-return]


def _flatten(body: Sequence[ast.stmt], call: ast.Call | None) -> Iterator[ast.stmt]:
    """Yield statements, with the bodies of `with`, and of what has the call or the update, in their place."""
    for node in body:
        is_way = isinstance(node, (ast.For, ast.While, ast.If)) and (_has(node, call) or _updates(node))
        if isinstance(node, ast.With) or is_way:
            bodies: list[list[ast.stmt]] = [getattr(node, name, []) for name in ("body", "orelse")]
            chosen = next((item for item in bodies if any(_has(one, call) or _updates(one) for one in item)), bodies[0])
            yield from _flatten(chosen, call)
        else:
            yield node


def _updates(node: ast.AST) -> bool:
    return _UPDATES.search(ast.unparse(node)) is not None


def _has(node: ast.AST, call: ast.Call | None) -> bool:
    return any(part is call for part in ast.walk(node))


def _find_class(module: ForkModule, function: ast.AST) -> ast.ClassDef | None:
    """Return the class that has a function."""
    nodes = (item.node for item in module.segments if isinstance(item.node, ast.ClassDef))
    return next((node for node in nodes if any(item is function for item in node.body)), None)


def keep(fork: ForkCode, value: ast.expr) -> str | None:
    """Return an expression of the loop as a hook finds it in `now.kept`; None if it cannot come along."""
    names = {name.removeprefix("self.") for name in list_needed(value)}
    if not names or slice_loop(fork, (), names) is None:
        return None
    value = copy.deepcopy(value)
    for part in ast.walk(value):
        if isinstance(part, ast.Name):
            part.id = "now.kept" if part.id == "self" else f"now.kept.{part.id}"
    return ast.unparse(value)
