"""Slice a fork's training loop: what makes columns and arguments around its advantages."""

import ast
import builtins
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extractor.importers.adopt.fork_code import Closure, ForkCode, ForkModule, find_calls
from extractor.importers.config.templates import render
from extractor.importers.python_text.backward import BackwardSlicer, list_needed
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CALLED = "compute_advantage"
# Where a loop has its responses, and where it begins to learn from them.
_ROLLED_OUT = re.compile(r"generate_sequences|gen_batch_output|\.repeat\(")
_UPDATES = re.compile(r"update_(actor|policy)\(")
# What is not so in a project, and what no project has.
_NOT_HERE = re.compile(r"launch_reward_fn_async|\buse_rm\b")
_REFUSED = re.compile(r"_wg\b|\bray\b|generate_sequences")
# What the code finds in a project besides its own: the trainer's attributes, and names.
_GIVEN = {f"self.{name}" for name in ("config", "global_steps", "total_training_steps", "tokenizer", "reward_fn")}
_REWARD = "self.reward_fn"
_LOCALS = {"self", "metrics", "timing_raw"}
_PARTS = {"batch", "non_tensor_batch", "meta_info"}
# What a loop makes rewards of, and what of it says nothing: what upstream calls, takes apart, measures and fills up.
REWARDS = frozenset({"token_level_scores", "token_level_rewards"})
_OF_ROWS = frozenset({"extra_info", "reward_model"})
_USUAL = re.compile(
    r"metrics|^print|^pass$|import |^reward_\w+ = [\w\[\]'\"{}]*$|"
    r"^batch = (batch( if batch is None.*)?$|DataProto\.concat|batch\[(kept_traj|:))|"
    r"\b(apply_kl_penalty|compute_advantage|union|repeat|reward_fn|\w*compute\w*_reward|extract_reward|from_single_dict"
    r"|compute_rm_score|pop|_balance_batch|compute_values|select)\("
)
# What of a trainer's file a project has called by then.
_VERLS = {"apply_kl_penalty", "compute_advantage", "compute_response_mask"}


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
        is_replaced: Whether what comes before the advantages makes another batch.
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
    is_replaced: bool

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
        if self.is_replaced:
            before.append(
                f"now.batch.batch, now.batch.non_tensor_batch = {self.batch}.batch, {self.batch}.non_tensor_batch"
            )
        before += [f"self.{name} = {name}" for name in handed]
        after = [*(f"{name} = self.{name}" for name in handed), *map(ast.unparse, self.after)] if self.after else []
        closure.imports["before_phase"] = f"from {closure.package}.hooks import before_phase"
        found = [] if "as_trainer" in closure.taken else [render("fork_trainer.py").strip()]
        closure.imports["copy"] = "import copy"
        for phase, lines in (("advantages", before), ("update", after)):
            if lines:
                code = "\n".join(lines).replace("\n", "\n    ")
                text = render(
                    "fork_loop.py", phase=phase, loop=self, only=only, renamed=dict(renamed), slug=slug, code=code
                )
                decorator, function = text.split("\n", 1)
                found.append(f"{decorator}\n{closure.rewrite(self.module, function).strip()}")
        return found


def slice_loop(
    fork: ForkCode, columns: Iterable[str], names: Iterable[str], near: ForkModule | None = None
) -> LoopSlice | None:
    """Return what makes columns of the batch and names of the loop; None if it cannot come along.

    Args:
        fork: The fork.
        columns: Keys of the batch.
        names: Locals, or attributes of the trainer, that the loop hands to `compute_advantage`.
        near: Where to look first.
    """
    for module, call, around in sorted(_list_loops(fork), key=lambda item: item[0] is not near):
        found = _slice_around(module, call, around, set(columns), set(names))
        if found is not None and (found.columns or names):
            return found
    return None


def find_shaping(fork: ForkCode, upstream: Iterable[str]) -> list[str]:
    """Return statements by which only the fork's loop changes rewards."""
    known = {ast.unparse(leaf) for text in upstream for leaf in _list_leaves(ast.parse(text).body)}
    for module, call, around in _list_loops(fork):
        if _is_upstreams(module, around):
            break
        batch, statements, start, place, end = _split_loop(call, around)
        made = _make_slicer(module, batch).run(statements[start:place], set(), REWARDS | _OF_ROWS)
        others = [leaf for leaf in _list_leaves(statements[start:end]) if isinstance(leaf, ast.Assign)]
        itself = re.compile(rf"{re.escape(batch)}(\.\w+)?")  # or an attribute of it, which no project has
        replaced = [leaf for leaf in others if any(itself.fullmatch(ast.unparse(to)) for to in leaf.targets)]
        found = dict.fromkeys(map(ast.unparse, [*_list_leaves(made), *replaced]))
        return [text for text in found if text not in known and not _USUAL.search(text)]
    return []


def _list_loops(fork: ForkCode) -> list[tuple[ForkModule, ast.Call, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return the methods that call `compute_advantage`, with the calls; classes that upstream had come last."""
    found = [
        (module, call, around)
        for module in fork.list_callers(f"{_CALLED}(")
        for call, around in find_calls(module, (_CALLED,))
        if isinstance(around, _FUNCTIONS) and around.args.args[:1] and around.args.args[0].arg == "self"
    ]
    return sorted(found, key=lambda item: _is_upstreams(item[0], item[2]))


def _is_upstreams(module: ForkModule, function: ast.AST) -> bool:
    node = _find_class(module, function)
    return node is not None and fingerprint_statement(node) in load_upstream_parts()


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


def _slice_around(
    module: ForkModule,
    call: ast.Call,
    around: ast.FunctionDef | ast.AsyncFunctionDef,
    columns: set[str],
    names: set[str],
) -> LoopSlice | None:
    """Return the slice around one call of `compute_advantage`."""
    batch, statements, start, place, end = _split_loop(call, around)
    own, slicer = _find_class(module, around), _make_slicer(module, batch)
    asked_locals = {name for name in names if name in slicer.find_made(statements[:place])[0]}
    targets = asked_locals | {f"self.{name}" for name in names - asked_locals}
    asked, later = set(targets), set[str]()
    made = slicer.run(statements[start:place], asked, set(columns))
    later |= {name for name in asked if name.startswith("self.")} - _GIVEN
    after = slicer.run(statements[place + 1 : end], later, columns - slicer.find_made(made)[1])
    later_locals = {name for name in _find_free(module, batch, later) if not name.startswith("self.")}
    asked = targets | later_locals
    before = slicer.run(statements[start:place], asked, set(columns))
    state = {name for name in asked | later if name.startswith("self.")} - _GIVEN
    first, unmade = list[ast.stmt](), set(state)
    for item in own.body if own is not None and state else ():
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            first = slicer.run(list(_flatten(item.body, None)), unmade, set())
            unmade = _find_free(module, batch, unmade) - {"config"}
    lacking = _find_free(module, batch, asked) - state | unmade
    everything = [*first, *before, *after]
    if lacking or not everything or _REFUSED.search("\n".join(map(ast.unparse, everything))):
        return None
    trainer = f"{own.name}.{around.name}" if own is not None else around.name
    found = frozenset(columns & slicer.find_made(everything)[1])
    handed, is_replaced = tuple(sorted(asked_locals | later_locals)), batch in slicer.find_made(before)[0]
    kept = tuple(sorted(name[5:] for name in slicer.find_made(first)[0] if name.startswith("self.")))
    return LoopSlice(module, trainer, batch, first, before, after, handed, kept, found, is_replaced)


def _make_slicer(module: ForkModule, batch: str) -> BackwardSlicer:
    """Return a slicer that keeps what functions of the loop's file do to its batch, too."""

    def is_own_work(node: ast.stmt) -> bool:
        value = node.value if isinstance(node, (ast.Assign, ast.Expr)) else None
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            return False
        is_given = any(ast.unparse(item) == batch for item in value.args)
        is_kept = isinstance(node, ast.Expr) or ast.unparse(node.targets[0]) == batch  # type: ignore[attr-defined]
        return is_given and is_kept and value.func.id not in _VERLS and value.func.id in module.by_name

    return BackwardSlicer(batch, _PARTS, _NOT_HERE, is_own_work, _ask_for_parts)


def _find_free(module: ForkModule, batch: str, names: set[str]) -> set[str]:
    """Return the names that neither the module nor a project's hook has."""
    return names - {*dir(builtins), *module.by_name, *module.imports, *_LOCALS, *_GIVEN, batch}


def _ask_for_parts(node: Any) -> ast.stmt:
    """Return a statement that takes apart what a reward manager returns, as a project has it."""
    is_parts = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    if is_parts and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == _REWARD:
        parts = ast.keyword("parts", ast.Constant(len(node.targets[0].elts)))
        return ast.copy_location(ast.Assign(node.targets, ast.Call(node.value.func, [], [parts])), node)
    statement: ast.stmt = node
    return statement


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
