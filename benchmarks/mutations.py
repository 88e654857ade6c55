"""Small changes of Python text, one at a time: what a mutant of a function may be."""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
CALLS = {
    "min": "max",
    "max": "min",
    "sum": "mean",
    "mean": "sum",
    "any": "all",
    "all": "any",
    "eval": "train",
    "train": "eval",
    "zeros": "ones",
    "ones": "zeros",
    "zeros_like": "ones_like",
    "ones_like": "zeros_like",
    "append": "extend",
    "extend": "append",
    "minimum": "maximum",
    "maximum": "minimum",
    "floor": "ceil",
    "ceil": "floor",
}
DROPPED = (
    "detach",
    "clone",
    "contiguous",
    "float",
    "copy",
    "long",
    "bool",
    "abs",
    "exp",
    "clamp",
    "unsqueeze",
    "squeeze",
)
# Given one thing, these return another one that may well be taken for it.
UNWRAPPED = (
    "abs",
    "deepcopy",
    "exp",
    "float",
    "int",
    "list",
    "log",
    "reversed",
    "round",
    "set",
    "sorted",
    "sqrt",
    "tuple",
)
# Where something lies, and along which of few axes, which by default or counted from the other end is the same here.
_SAME = ("device", "dim", "axis", "non_blocking", "desc", "stacklevel")
# No one swaps those of the former by mistake; what the latter return is the same.
_NOT_SWAPPED = ("isinstance", "getattr", "hasattr", "get", "max", "min", "maximum", "minimum", "allclose")
# What they are given is read by people only.
_SAID = ("print", "info", "debug", "warning", "warning_once", "error", "warn", "log_gpu_memory_usage", "format_exc")


@dataclass(frozen=True)
class Mutation:
    """One change.

    Attributes:
        function: "Class.method", or a function's name; "" for what stands outside of functions.
        kind: statement, operator, constant, default, condition or call.
        line: Number of the changed text's first line.
        start, end: The changed bytes.
        new: What replaces them.
        whole: For a default, and for what stands in a class or a module: whatever uses that is concerned.
    """

    function: str
    kind: str
    line: int
    start: int
    end: int
    new: str
    whole: bool = False

    def apply(self, text: bytes) -> bytes:
        """Return the changed text."""
        return text[: self.start] + self.new.encode() + text[self.end :]

    def digest(self, text: bytes) -> str:
        """Name it by function, line of text and change, as long as these stay as they are."""
        first = text.rfind(b"\n", 0, self.start) + 1
        last = text.find(b"\n", self.end)
        changed = [text[first : self.start].strip(), text[self.start : self.end], text[self.end : last].strip()]
        parts = (self.function.encode(), *changed, self.new.encode())
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:10]


def mutations(text: bytes) -> tuple[Mutation, ...]:
    """Return every mutation of a file, in the order of its text; a few leave it no program."""
    tree = ast.parse(text)
    starts = [0]
    for row in text.split(b"\n"):
        starts.append(starts[-1] + len(row) + 1)
    found = _Finder(text, starts)
    found.block(tree.body, "", whole=True)
    unique = {(item.start, item.end, item.new): item for item in found.found}
    return tuple(unique[key] for key in sorted(unique))


def parses(text: bytes) -> bool:
    """Tell whether a text is a program."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


class _Finder:
    """Walks a file."""

    def __init__(self, text: bytes, starts: list[int]) -> None:
        self.text, self.starts = text, starts
        self.found: list[Mutation] = []
        self.function, self.whole, self.known = "", True, set[str]()

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt))
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def add(self, kind: str, span: tuple[int, int], new: str) -> None:
        line = self.text.count(b"\n", 0, span[0]) + 1
        self.found.append(Mutation(self.function, kind, line, *span, new, self.whole))

    def source(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end].decode()

    def block(self, body: list[ast.stmt], above: str, *, whole: bool) -> None:
        for node in body:
            self.function, self.whole = above.rstrip("."), whole
            self.statement(node, above, whole=whole)

    def statement(self, node: ast.stmt, above: str, *, whole: bool) -> None:
        if isinstance(node, ast.ClassDef):
            self.block(node.body, f"{above}{node.name}.", whole=True)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(node, above if whole else "", inner=not whole)
        elif isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or _is_said(node.value)):
            return
        elif whole:
            # Of classes: fields and constants. Of modules: what loggers and registries are called is left alone.
            if above and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                self.expression(node.value)
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            self._gone(node)
            self._parts(node)
            for part in [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                for name in ("body", "orelse", "finalbody"):
                    for item in getattr(part, name, []):
                        self.statement(item, above, whole=False)

    def _parts(self, node: ast.stmt) -> None:
        """Look at the expressions that a statement is made of."""
        if isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
            self.between(node.target, node.value, f"{OPERATORS[type(node.op)]}=")
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "target", "targets", "msg"):
                continue
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.expr):
                    if name == "test":
                        self.condition(item)
                    self.expression(item)
                elif isinstance(item, ast.withitem):
                    self.expression(item.context_expr)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, above: str, *, inner: bool) -> None:
        before = self.function, self.whole, self.known
        if not inner:
            self.function = f"{above}{node.name}"
            self.known = set()
        self.whole = not inner
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self._default(default)
        self.whole = False
        for part in node.body:
            self.statement(part, above, whole=False)
        self.function, self.whole, self.known = before

    def _default(self, node: ast.expr) -> None:
        for new in _other_constants(node):
            self.add("default", self.span(node), new)

    def _gone(self, node: ast.stmt) -> None:
        """A statement that can be left out without another one failing for want of a name."""
        names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
        is_set = isinstance(node, (ast.Assign, ast.AnnAssign)) and names <= self.known
        if isinstance(node, (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)) or is_set:
            self.add("statement", self.span(node), "pass")
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            self.add("statement", self.span(node), "return None")
        self.known |= names

    def condition(self, node: ast.expr) -> None:
        source = self.source(node)
        self.add("condition", self.span(node), f"not ({source})")
        for constant in ("True", "False"):
            self.add("condition", self.span(node), constant)

    def expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Lambda):
            self.expression(node.body)
            return
        if isinstance(node, ast.JoinedStr) or _is_said(node):
            return
        self.mutate(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
            elif isinstance(child, ast.keyword) and child.arg not in _SAME:
                self.expression(child.value)
            elif isinstance(child, ast.comprehension):
                self.expression(child.iter)
                for test in child.ifs:
                    self.condition(test)
                    self.expression(test)

    def mutate(self, node: ast.expr) -> None:
        """Do what the kind of expression has a method for."""
        known = getattr(self, f"_{type(node).__name__}", None)
        if known is not None:
            known(node)

    def _Constant(self, node: ast.Constant) -> None:
        for new in _other_constants(node):
            self.add("constant", self.span(node), new)

    def _BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS:
            self.between(node.left, node.right, OPERATORS[type(node.op)])

    def _Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.between(left, right, OPERATORS[type(operator)])

    def _BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, "or" if isinstance(node.op, ast.And) else "and")

    def _UnaryOp(self, node: ast.UnaryOp) -> None:
        if not _is_last(node):
            self.add("operator", self.span(node), f"({self.source(node.operand)})")

    def _IfExp(self, node: ast.IfExp) -> None:
        self.condition(node.test)

    def _Dict(self, node: ast.Dict) -> None:
        merged = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
        if len(merged) == len(node.values) == 2:
            span = self.span(merged[0])[0], self.span(merged[1])[1]
            self.add("operator", span, f"{self.source(merged[1])}, **{self.source(merged[0])}")

    def between(self, left: ast.expr, right: ast.expr, new: str) -> None:
        """Replace the operator between two operands; brackets around them stay."""
        end, start = self.span(left)[1], self.span(right)[0]
        middle = self.text[end:start].decode()
        if "#" in middle:
            return
        bare = middle.replace("(", " ").replace(")", " ").strip()
        place = middle.index(bare)
        self.add("operator", (end + place, end + place + len(bare)), new)

    def _Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        end = self.span(function)[1]
        if name in CALLS:
            self.add("call", (end - len(name), end), CALLS[name])
        alike = name == "detach" and self.text[self.span(node)[1] :].lstrip().startswith(b".item()")
        if name in DROPPED and not alike and isinstance(function, ast.Attribute) and not _is_module(function.value):
            self.add("call", (self.span(function.value)[1], self.span(node)[1]), "")
        if name in UNWRAPPED and len(node.args) == 1 and not isinstance(node.args[0], (ast.Starred, ast.GeneratorExp)):
            self.add("call", self.span(node), f"({self.source(node.args[0])})")
        swapped = name not in _NOT_SWAPPED
        if swapped and len(node.args) >= 2 and not any(isinstance(item, ast.Starred) for item in node.args[:2]):
            first, second = node.args[:2]
            whole = (self.span(first)[0], self.span(second)[1])
            between = self.text[self.span(first)[1] : self.span(second)[0]].decode()
            self.add("call", whole, f"{self.source(second)}{between}{self.source(first)}")
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in _SAME:
                start, stop = self.span(keyword.value)
                start = self.text.rindex(keyword.arg.encode(), 0, start)
                after = self.text[stop:].lstrip()
                stop += len(self.text[stop:]) - len(after) + 1 if after.startswith(b",") else 0
                self.add("call", (start, stop), "")


def _other_constants(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        yield ast.unparse(node.operand)  # a default of -1 means something
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int):
        yield from (str(value + 1), str(value - 1))
    elif isinstance(value, float):
        yield from (repr(value * 2 if value else 1.0), repr(value + 1))
    elif isinstance(value, str):
        yield repr(f"{value}x")


def _is_said(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) in _SAID


def _is_last(node: ast.UnaryOp) -> bool:
    """Tell whether this is -1: mostly the last of two axes, where 1 is the same; its number is mutated anyhow."""
    return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and node.operand.value == 1


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("torch", "np", "F", "copy", "math")
