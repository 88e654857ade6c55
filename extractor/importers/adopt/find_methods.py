"""Find estimators and losses that only a fork has, and what it calls them with."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import shorten

from extractor.importers.adopt.fork_code import ForkCode, ForkModule, find_calls
from extractor.importers.adopt.loop_slices import keep
from extractor.importers.adopt.target_project import NoPlace
from extractor.importers.config.templates import read_table
from extractor.importers.python_text.definitions import list_required_arguments
from extractor.pipeline.index.syntax import read_attribute_chain
from extractor.values import readers
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts

ESTIMATOR, LOSS = "advantage estimator", "policy loss"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TABLE = read_table("adopt")
_TRAINERS: Mapping[str, str] = _TABLE["trainers"]
_ESTIMATORS_OWN: Mapping[str, str] = _TABLE["estimators"]
_OF_A_LOSS = {name: name for name in _TABLE["of_a_loss"]}
_LOSSES_OWN: Mapping[str, str] = {**_OF_A_LOSS, **_TABLE["losses"]}


@dataclass(frozen=True)
class ForkMethod:
    """An estimator or loss that only the fork has.

    Attributes:
        kind: ESTIMATOR or LOSS.
        name: What a config calls it.
        module: Where it is computed.
        function: Its function, or the one that has a branch for it.
        branch: The statements for it, and the if statement that they belong to; None: the function is for it alone.
        functions: The functions that are the fork's own, as module and name.
        about: One sentence on it.
        registered: Whether a registry of verl's has it.
        given: What its function is handed besides, as hook expressions; None: what the fork's calls of it say.
        lacking: What keeps it from running.
    """

    kind: str
    name: str
    module: ForkModule = field(repr=False)
    function: str
    branch: tuple[list[ast.stmt], ast.If] | None = field(repr=False)
    functions: tuple[tuple[str, str], ...]
    about: str
    registered: bool = False
    given: Mapping[str, str] | None = None
    lacking: str = ""

    @property
    def symbol(self) -> str:
        """Return its function as `module:name`."""
        return f"{self.module.name}:{self.function}"


def find_methods(fork: ForkCode) -> list[ForkMethod]:
    """Return the estimators and losses that only the fork has."""
    found: dict[tuple[str, str], ForkMethod] = {}
    # Of several trainers the one that launch scripts use says what a method is.
    for module in fork.list_callers("def compute_advantage"):
        if "compute_advantage" in module.by_name:
            for method in _find_branches(fork, module):
                found.setdefault((method.kind, method.name), method)
    for word, kind in (("register_adv_est", ESTIMATOR), ("register_policy_loss", LOSS)):
        for module in fork.mentions(word):
            for name, segment in module.by_name.items():
                called = _find_registered_name(fork, module, segment.node, word)
                own = _list_own_functions(module, name) if called else ()
                if own:
                    about = describe(segment.node)
                    method = ForkMethod(kind, called, module, name, None, own, about, registered=True)
                    found.setdefault((kind, called), method)
    for module in fork.mentions("def compute_policy_loss"):
        for name, segment in module.by_name.items():
            known = {item.function for item in found.values()}
            is_loss = name.startswith("compute_policy_loss") and isinstance(segment.node, _FUNCTIONS)
            own = _list_own_functions(module, name) if is_loss and name not in known else ()
            if own and fork.is_used(name):
                called = name.removeprefix("compute_policy_loss").strip("_") or "vanilla"
                method = ForkMethod(LOSS, called, module, name, None, own, describe(segment.node))
                found.setdefault((LOSS, called), method)
    return list(found.values())


def find_method(fork: ForkCode, symbol: str) -> ForkMethod | None:
    """Find a method by name, function or `module:function`; None if absent."""
    short = symbol.rpartition(":")[2].rpartition(".")[2]
    for method in find_methods(fork):
        if short in (method.name, method.function) or any(short == name for _, name in method.functions):
            return method
    for module in fork.mentions(f"def {short}("):
        node = module.by_name[short].node if short in module.by_name else None
        if isinstance(node, _FUNCTIONS):
            taken = {item.arg for item in list_parameters(node)}
            kind = LOSS if "log_prob" in taken else ESTIMATOR if "token_level_rewards" in taken else None
            if kind is not None:
                name = re.sub(r"^compute_|^policy_loss_|_(outcome_)?advantages?$|_policy_loss$", "", short)
                return ForkMethod(kind, name or short, module, short, None, ((module.name, short),), describe(node))
    return None


def _find_branches(fork: ForkCode, module: ForkModule) -> Iterator[ForkMethod]:
    """Yield estimators that only the fork's compute_advantage has branches for."""
    node = readers.parse_python(module.by_name["compute_advantage"].core).body[0]  # of this text, not of the module's
    if not isinstance(node, _FUNCTIONS) or len(node.args.args) < 2:
        return
    chosen = node.args.args[1].arg
    for top in node.body:
        item = top if isinstance(top, ast.If) and _list_names_in_test(fork, module, top.test, chosen) else None
        chain = item
        while item is not None and chain is not None:
            own = tuple(sorted({pair for statement in item.body for pair in _list_reached(fork, module, statement)}))
            places = [(place, name) for where, name in own if (place := fork.find(where)) is not None]
            about = describe(places[0][0].by_name[places[0][1]].node) if places else ""
            for name in _list_names_in_test(fork, module, item.test, chosen) if own else ():
                yield ForkMethod(ESTIMATOR, name, module, "compute_advantage", (item.body, chain), own, about)
            rest = item.orelse
            item = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None


def _list_names_in_test(fork: ForkCode, module: ForkModule, test: ast.expr, chosen: str) -> list[str]:
    """Return the names that a test compares the estimator with."""
    found = []
    for part in ast.walk(test):
        if isinstance(part, ast.Compare) and ast.unparse(part.left) == chosen:
            values = part.comparators[0]
            for value in values.elts if isinstance(values, (ast.List, ast.Tuple, ast.Set)) else [values]:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found.append(value.value)
                elif isinstance(value, ast.Attribute):
                    found.append(_read_member(fork, module, value))
    return found


def _read_member(fork: ForkCode, module: ForkModule, value: ast.Attribute) -> str:
    """Return an enum member's value, or its lowercased name if unknown."""
    chain = [name for name in read_attribute_chain(value) if name != "value"]
    place = module if chain[0] in module.by_name else None
    if place is None and chain[0] in module.imports:
        found = fork.resolve(module.imports[chain[0]])
        place = found[0] if found is not None else None
    enum = place.by_name.get(chain[-2]) if place is not None and len(chain) > 1 else None
    for item in getattr(enum.node, "body", ()) if enum is not None else ():
        is_it = isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == chain[-1]
        if is_it and isinstance(item.value, ast.Constant):
            return str(item.value.value)
    return chain[-1].lower()


def _find_registered_name(fork: ForkCode, module: ForkModule, node: ast.stmt | None, word: str) -> str:
    """Return the name a function is registered under; empty if none."""
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and read_attribute_chain(decorator.func)[-1:] == (word,) and decorator.args:
            value = decorator.args[0]
            if isinstance(value, ast.Constant):
                return str(value.value)
            return _read_member(fork, module, value) if isinstance(value, ast.Attribute) else ""
    return ""


def _list_own_functions(module: ForkModule, name: str) -> tuple[tuple[str, str], ...]:
    """Return the function if no upstream version has it, else nothing."""
    segment = module.by_name[name]
    if segment.node is not None and fingerprint_statement(segment.node) not in load_upstream_parts():
        return ((module.name, name),)
    return ()


def _list_reached(fork: ForkCode, module: ForkModule, statement: ast.stmt) -> set[tuple[str, str]]:
    """Return the fork's own functions that a statement names."""
    found = set()
    for part in ast.walk(statement):
        chain = read_attribute_chain(part) if isinstance(part, (ast.Name, ast.Attribute)) else ()
        place, name = module, chain[0] if chain else ""
        if name in module.imports:
            resolved = fork.resolve(module.imports[name])
            if resolved is None:
                continue
            place, name = resolved[0], resolved[1] or (chain[1] if len(chain) > 1 else "")
        segment = place.by_name.get(name)
        if segment is not None and isinstance(segment.node, _FUNCTIONS):
            found |= set(_list_own_functions(place, name))
    return found


def list_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def describe(node: ast.stmt | None) -> str:
    """Return the first sentence of a function's docstring, in one line."""
    text = ast.get_docstring(node) if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else None
    line = " ".join((text or "").split("\n\n")[0].split()).partition(" Args:")[0]
    return shorten(re.split(r"(?<=\.) ", line, maxsplit=1)[0], 160, placeholder="...")


def list_arguments(
    fork: ForkCode, method: ForkMethod, node: ast.FunctionDef | ast.AsyncFunctionDef, left: list[str]
) -> list[str]:
    """Return the keyword arguments for a hook's call of the function."""
    known = _ESTIMATORS_OWN if method.kind == ESTIMATOR else _LOSSES_OWN
    found, needed, given = [], set(list_required_arguments(node)), find_given(fork, method)
    for item in list_parameters(node):
        text = given.get(item.arg) or known.get(item.arg)
        if text is not None:
            found.append(f"{item.arg}={text}")
        elif item.arg in needed and method.kind == ESTIMATOR:
            found.append(f'{item.arg}=now.column("{item.arg}")')
        elif item.arg in needed:
            raise NoPlace(f"a policy loss is not given {item.arg}, which {node.name} needs")
        elif item.arg in given:
            left.append(item.arg)
    return found


def find_given(fork: ForkCode, method: ForkMethod) -> dict[str, str | None]:
    """Return arguments only the fork passes, as hook expressions or None."""
    if method.given is not None:
        return dict(method.given)
    node = method.module.by_name[method.function].node
    if method.branch is not None or not isinstance(node, _FUNCTIONS):
        return {}
    known, words = (
        (_ESTIMATORS_OWN, _TABLE["callers"])
        if method.kind == ESTIMATOR
        else (_LOSSES_OWN, {**_TABLE["actors"], **_OF_A_LOSS})
    )
    names = [item.arg for item in list_parameters(node)]
    found: dict[str, str | None] = {}
    for name, value, around in _find_handed(fork, method, names):
        is_own = name not in known or isinstance(value, (ast.List, ast.Tuple))  # [low, high], where upstream has one
        if name in names and is_own and name not in (*found, *_TABLE["of_others"]):
            is_default = isinstance(value, ast.Constant) and value.value is None
            found |= {} if is_default else {name: rewrite_for_hook(value, around, words)}
    return found


def _find_handed(fork: ForkCode, method: ForkMethod, names: list[str]) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """Yield each argument the fork passes: name, value, enclosing function."""
    callers = {method.function} | ({"policy_loss_fn"} if method.kind == LOSS and method.registered else set())
    for module in {item.name: item for word in sorted(callers) for item in fork.list_callers(f"{word}(")}.values():
        for call, around in find_calls(module, callers):
            yield from ((name, value, around) for name, value in zip(names, call.args, strict=False))
            yield from ((item.arg, item.value, around) for item in call.keywords if item.arg)
    for module in fork.list_callers("adv_kwargs[") if method.kind == ESTIMATOR else ():
        for caller in (item.node for item in module.segments if "compute_advantage" in item.binds and item.node):
            for part in ast.walk(caller):
                target = part.targets[0] if isinstance(part, ast.Assign) else None
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    assert isinstance(part, ast.Assign)
                    yield str(target.slice.value), part.value, caller


def list_branch_arguments(
    fork: ForkCode, method: ForkMethod, node: ast.FunctionDef | ast.AsyncFunctionDef, left: list[str]
) -> list[str]:
    """Return the arguments for a hook's call of the fork's compute_advantage."""
    names = [item.arg for item in list_parameters(node)]
    call, trainer = _find_trainer_call(fork, method)
    given = dict(zip(names, call.args, strict=False)) | {item.arg: item.value for item in call.keywords if item.arg}
    needed = set(list_required_arguments(node))
    branch, chain = method.branch or ([], None)
    others = [item for item in node.body if chain is None or ast.dump(item) != ast.dump(chain)]  # of another tree
    used = {part.id for body in [*branch, *others] for part in ast.walk(body) if isinstance(part, ast.Name)}
    found = []
    for place, name in enumerate(names[1:]):
        if place == 0:
            found.append(f'{name}="{method.name}"')
        elif name in given and (name in used or name in needed):
            text = rewrite_for_hook(given[name], trainer, _TRAINERS) or keep(fork, given[name])
            if text is not None:
                found.append(f"{name}={text}")
            elif name in needed and name in used:
                raise NoPlace(f"its trainer gives it {name}={ast.unparse(given[name])}, which no project has")
            elif name in needed:
                found.append(f"{name}=None")
            else:
                left.append(name)
        elif name in needed:
            found.append(f"{name}={_ESTIMATORS_OWN.get(name, 'None')}")
    return found


def _find_trainer_call(fork: ForkCode, method: ForkMethod) -> tuple[ast.Call, ast.AST]:
    """Return the compute_advantage call with most arguments, and its function."""
    for module in (method.module, *fork.list_callers("compute_advantage(")):
        calls = list(find_calls(module, (method.function,)))
        if calls:
            return max(calls, key=lambda item: len(item[0].args) + len(item[0].keywords))
    return ast.Call(ast.Name(method.function), [], []), ast.Module([], [])


def rewrite_for_hook(
    value: ast.expr, trainer: ast.AST, words: Mapping[str, str], names: Collection[str] = (), depth: int = 0
) -> str | None:
    """Rewrite a trainer's expression for a hook; None if impossible. It may have `names` of the trainer's module."""
    text = ast.unparse(value)
    for own, ours in words.items():
        text = re.sub(rf"(?<![\w.]){re.escape(own)}\b(?!\s*=[^=])", ours, text)
    known = {"True", "int", "float", "bool", *names, *(ours.partition(".")[0] for ours in words.values())}
    free = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} - known
    for name in sorted(free):
        values = [
            item.value
            for item in ast.walk(trainer)
            if isinstance(item, ast.Assign) and len(item.targets) == 1 and ast.unparse(item.targets[0]) == name
        ]
        added = {ast.unparse(item.target) for item in ast.walk(trainer) if isinstance(item, ast.AugAssign)}
        is_one = len(values) == 1 and name not in added and depth < 4
        inner = rewrite_for_hook(values[0], trainer, words, names, depth + 1) if is_one else None
        inner = 'now["entropy"]' if inner is None and _is_entropy(name, trainer) else inner
        if inner is None:
            return None
        parts = re.split(rf"(?<![\w.]){name}\b(?!=)", text)
        text = inner if parts == ["", ""] else f"({inner})".join(parts)
    return text


def _is_entropy(name: str, actor: ast.AST) -> bool:
    """Tell whether an actor calls its policy's entropy by a name."""
    for node in ast.walk(actor):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], ast.unparse(node.value)
            if isinstance(target, ast.Tuple) and "_forward_micro_batch" in value:
                target = target.elts[0]
            elif not re.search(r"output\w*(\[|\.get\()'entropys?'", value):
                continue
            if ast.unparse(target) == name:
                return True
    return False
