"""Slice a fork's training loop: what makes columns and arguments around its advantages."""

import ast
import builtins
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extractor.importers.adopt.fork_code import Closure, ForkCode, ForkModule, find_calls
from extractor.importers.config.templates import render
from extractor.pipeline.index.syntax import read_attribute_chain

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
# What of a trainer's file a project has called by then.
_VERLS = {"apply_kl_penalty", "compute_advantage", "compute_response_mask"}
_CHANGES = {"append", "extend", "update", "add", "setdefault"}


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
        columns: What it writes to the batch.
    """

    module: ForkModule
    trainer: str
    batch: str
    first: list[ast.stmt] = field(repr=False)
    before: list[ast.stmt] = field(repr=False)
    after: list[ast.stmt] = field(repr=False)
    handed: tuple[str, ...]
    columns: frozenset[str]

    def write(self, closure: Closure, only: str, renamed: Mapping[str, str], slug: str) -> list[str]:
        """Return functions that do it in a project; the closure gets what they need.

        Args:
            closure: Of the file.
            only: The estimator without which they do nothing; empty: none.
            renamed: What the project calls estimators of the fork's, and the fork's names.
            slug: Behind the functions' names.

        Raises:
            NoPlace: they need what no project has.
        """
        made = _find_written(self.first, self.batch)[0]
        handed = [name for name in self.handed if f"self.{name}" not in made]
        before = [*_write_first(self.first), *map(ast.unparse, self.before)]
        if self.batch in _find_written(self.before, self.batch)[0]:
            before.append(
                f"now.batch.batch, now.batch.non_tensor_batch = {self.batch}.batch, {self.batch}.non_tensor_batch"
            )
        before += [f"self.{name} = {name}" for name in handed]
        after = [*(f"{name} = self.{name}" for name in handed), *map(ast.unparse, self.after)] if self.after else []
        closure.imports["before"] = f"from {closure.package}.hooks import before"
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


def _write_first(first: Sequence[ast.stmt]) -> list[str]:
    """Return what makes the attributes of the first step."""
    if not first:
        return []
    name = next(iter(sorted(name for name in _find_written(first, "batch")[0] if name.startswith("self."))))
    body = "\n".join(map(ast.unparse, first)).replace("\n", "\n    ")
    return [f"if not hasattr(self, {name.removeprefix('self.')!r}):\n    config = self.config\n    {body}"]


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
    modules = sorted(fork.mentions(f"{_CALLED}("), key=lambda item: (item is near, fork.count_uses(item)), reverse=True)
    for module in modules:
        for call, around in find_calls(module, (_CALLED,)):
            if isinstance(around, _FUNCTIONS) and around.args.args[:1] and around.args.args[0].arg == "self":
                found = _slice_around(fork, module, call, around, set(columns), set(names))
                if found is not None and (found.columns or names):
                    return found
    return None


def _slice_around(
    fork: ForkCode,
    module: ForkModule,
    call: ast.Call,
    around: ast.FunctionDef | ast.AsyncFunctionDef,
    columns: set[str],
    names: set[str],
) -> LoopSlice | None:
    """Return the slice around one call of `compute_advantage`."""
    batch = ast.unparse(call.args[0]) if call.args else "batch"
    statements = list(_flatten(around.body, call))
    place = next(index for index, item in enumerate(statements) if _has(item, call))
    start = max((i for i in range(place) if _ROLLED_OUT.search(ast.unparse(statements[i]))), default=-1) + 1
    end = next((i for i in range(place, len(statements)) if _updates(statements[i])), None)
    own = _find_class(module, around)
    local = {name for name in names if name in _find_written(statements[:place], batch)[0]}
    targets = local | {f"self.{name}" for name in names - local}
    slicer = _Slicer(module, batch)
    before = slicer.run(statements[start:place], set(targets), set(columns))
    written = _find_written(before, batch)[1]
    state = {name for name in _list_names(before) | targets if name.startswith("self.")} - _GIVEN
    after = slicer.run(statements[place + 1 : end], set(state), columns - written)
    lines = {name for name in _list_free(module, after, batch) if not name.startswith("self.")}
    before = slicer.run(statements[start:place], targets | lines, set(columns))
    everything = [*before, *after]
    state = {name for name in _list_names(everything) | targets if name.startswith("self.")} - _GIVEN
    first = _slice_first(own, slicer, state) if state else []
    made = _find_written([*first, *before], batch)[0]
    lacking = (_list_free(module, [*first, *before], batch) | targets | lines | state) - made - _GIVEN - {"config"}
    if lacking or not (everything or first) or _REFUSED.search("\n".join(map(ast.unparse, [*first, *everything]))):
        return None
    trainer = f"{own.name}.{around.name}" if own is not None else around.name
    handed = tuple(sorted(local | lines))
    found = frozenset(columns & _find_written(everything, batch)[1])
    return LoopSlice(module, trainer, batch, first, before, after, handed, found)


def _slice_first(own: ast.ClassDef | None, slicer: "_Slicer", state: set[str]) -> list[ast.stmt]:
    """Return what of a trainer's `__init__` makes attributes."""
    for item in own.body if own is not None else ():
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return slicer.run(list(_flatten(item.body, None)), set(state), set())
    return []


class _Slicer:
    """Slices statements backwards.

    Args:
        module: Where they are.
        batch: What they call the batch.
    """

    def __init__(self, module: ForkModule, batch: str) -> None:
        self._module, self._batch = module, batch

    def run(self, statements: Sequence[ast.stmt], names: set[str], columns: set[str]) -> list[ast.stmt]:
        """Return the statements that make names and columns; adds to `names` what these need."""
        found: list[ast.stmt] = []
        for node in reversed(statements):
            if isinstance(node, ast.With):
                found[:0] = self.run(node.body, names, columns)
            elif isinstance(node, ast.If):
                if _NOT_HERE.search(ast.unparse(node.test)):
                    found[:0] = self.run(node.orelse, names, columns)
                    continue
                asked = [set(names), set(names)]
                body, orelse = self.run(node.body, asked[0], columns), self.run(node.orelse, asked[1], columns)
                if body or orelse:
                    found.insert(0, ast.If(node.test, body or [ast.Pass()], orelse))
                    names |= {*asked[0], *asked[1], *_list_names([node.test])}
            elif self._is_wanted(node, names, columns):
                if isinstance(node, ast.Assign):
                    node = _ask_for_parts(node)
                    names -= {ast.unparse(item) for target in node.targets for item in _list_items(target)}
                names |= _list_names([node]) - {self._batch}
                found.insert(0, node)
        return found

    def _is_wanted(self, node: ast.stmt, names: set[str], columns: set[str]) -> bool:
        """Tell whether a statement makes what is asked for, or is the fork's own work on the batch."""
        if isinstance(node, (ast.Assert, ast.Delete, ast.Return, ast.Raise)):
            return False
        written = _find_written([node], self._batch)
        if written[0] & (names - _LOCALS - {self._batch}) or written[1] & columns:
            return True
        if not isinstance(node, (ast.Assign, ast.Expr)) or not isinstance(node.value, ast.Call):
            return False
        chain = read_attribute_chain(node.value.func)
        found = chain[0] if len(chain) == 1 else ""
        is_given = any(ast.unparse(item) == self._batch for item in node.value.args)
        is_new = found and found not in _VERLS and found in self._module.by_name
        return bool(is_given and is_new and (isinstance(node, ast.Expr) or self._batch in written[0]))


def _ask_for_parts(node: ast.Assign) -> ast.Assign:
    """Return a statement that takes apart what a reward manager returns, as a project has it."""
    target = node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == _REWARD:
        call = ast.Call(node.value.func, [], [ast.keyword("parts", ast.Constant(len(target.elts)))])
        return ast.copy_location(ast.Assign(node.targets, call), node)
    return node


def _flatten(body: Sequence[ast.stmt], call: ast.Call | None) -> Iterator[ast.stmt]:
    """Yield statements, with the bodies of `with`, and of what has the call or the update, in their place."""
    for node in body:
        is_way = isinstance(node, (ast.For, ast.While, ast.If)) and (_has(node, call) or _updates(node))
        if isinstance(node, ast.With) or is_way:
            bodies = [node.body, *([node.orelse] if isinstance(node, ast.If) else [])]
            chosen = next((item for item in bodies if any(_has(one, call) or _updates(one) for one in item)), node.body)
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


def _list_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that code reads; an attribute of the trainer's with `self.`."""
    found = set()
    for part in (part for node in nodes for part in ast.walk(node)):
        chain = read_attribute_chain(part) if isinstance(part, (ast.Name, ast.Attribute)) else ()
        if chain and isinstance(getattr(part, "ctx", None), ast.Load) and chain != ("self",):
            found.add(".".join(chain[:2]) if chain[0] == "self" else chain[0])
    return found


def _list_free(module: ForkModule, nodes: Sequence[ast.stmt], batch: str) -> set[str]:
    """Return the names that statements read and nothing defines: no builtin, no name of the module."""
    bound = {part.id for node in nodes for part in ast.walk(node) if _is_bound(part)}
    bound |= {part.arg for node in nodes for part in ast.walk(node) if isinstance(part, ast.arg)}
    known = {*bound, *dir(builtins), *module.by_name, *module.imports, *_LOCALS, batch}
    written = _find_written(nodes, batch)[0]
    return {name for name in _list_names(nodes) if name not in known} - written


def _is_bound(part: ast.AST) -> bool:
    return isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)


def _list_items(target: ast.expr) -> Iterator[ast.expr]:
    for item in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
        yield item.value if isinstance(item, ast.Starred) else item


def _find_written(nodes: Iterable[ast.stmt], batch: str) -> tuple[set[str], set[str]]:
    """Return the names and the batch's columns that statements make or change."""
    names, columns = set(), set()
    for part in (part for node in nodes for part in ast.walk(node)):
        targets = list(part.targets) if isinstance(part, ast.Assign) else []
        if isinstance(part, (ast.AugAssign, ast.AnnAssign, ast.For, ast.NamedExpr)):
            targets = [part.target]
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            names |= {item.asname or item.name for item in part.names}
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _CHANGES:
            targets = [part.func.value]
        for item in (item for target in targets for item in _list_items(target)):
            while isinstance(item, ast.Subscript):
                chain = read_attribute_chain(item.value) if isinstance(item.value, ast.Attribute) else ()
                if chain[:1] == (batch,) and chain[1:2] and chain[1] in _PARTS and isinstance(item.slice, ast.Constant):
                    columns.add(str(item.slice.value))
                    break
                item = item.value
            else:
                chain = read_attribute_chain(item)
                if chain and chain[:2] not in {(batch, name) for name in _PARTS}:
                    names.add(".".join(chain[:2]) if chain[0] == "self" else chain[0])
    return names, columns


def keep(fork: ForkCode, value: ast.expr) -> str | None:
    """Return an expression of the loop as a hook finds it in `now.kept`; None if it cannot come along."""
    names = {name.removeprefix("self.") for name in _list_names([value])}
    if not names or slice_loop(fork, (), names) is None:
        return None
    value = copy.deepcopy(value)
    for part in ast.walk(value):
        if isinstance(part, ast.Name):
            part.id = "now.kept" if part.id == "self" else f"now.kept.{part.id}"
    return ast.unparse(value)
