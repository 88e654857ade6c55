"""Expand bash words, compute its arithmetic on whole numbers, and evaluate its tests."""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from extractor.importers.runs.bash.quotes import NotBash, split_pieces
from extractor.importers.runs.bash.state import ShellState, Value, take_scalar
from extractor.importers.runs.bash.syntax import ShellStatement, parse, split_words
from extractor.importers.runs.placeholders import find_unknowns, make_unknown
from extractor.values import limits, readers

# A piece of a word: whether it is quoted, expanded outside of quotes, or ends a word ("$@" is several).
_Kind = Literal["plain", "quoted", "expanded", "end"]
_Piece = tuple[str, _Kind]
_PARAMETER = re.compile(
    r"(?P<count>#(?=[\w@*]))?(?P<name>\w+|[@*#?$!-])(?:\[(?P<index>(?:[^\[\]]|\[[^\]]*\])+)\])?"
    r"(?P<sign>:?[-=?+]|\^\^?|,,?|:)?(?P<rest>.*)",
    re.DOTALL,
)
_HOME = re.compile(r"(?:[A-Za-z_]\w*=)?(~)(?=/|\Z)", re.ASCII)
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
# A word that separators end: what is unknown in it stays whole, whatever its name.
_FIELD = re.compile("(?:\ue000+[^\ue000\ue001]*\ue001+|[^ \\t\\n\ue000])+")
_WILD = {"*", "?", "["}
_BINARY: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: _divide(left, right),
    ast.Mod: lambda left, right: left - right * _divide(left, right),
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type, Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# `X = 2`, `X += 2`, `X++`, `--X`.
_CHANGED = re.compile(r"\w\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*[A-Za-z_]")
_OCTAL = re.compile(r"(?<![\w.])0[0-9]")
_LARGEST, _MAX_EXPONENT, _LONGEST = 2**63, 62, 2_000
_OF_FILES = {"-e": Path.exists, "-f": Path.is_file, "-r": Path.exists, "-s": Path.is_file, "-d": Path.is_dir}
_NUMBERS = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}


class WordExpander:
    """Expands bash words.

    Args:
        state: Of the script.
        capture: Returns what statements print; None: that is not known.
    """

    def __init__(self, state: ShellState, capture: Callable[[Sequence[ShellStatement]], str | None]) -> None:
        self._state = state
        self._capture = capture

    def expand(self, raw: str) -> list[str]:
        """Return the words that a word expands to."""
        plain = "".join("_" if piece[0] in "\\'\"$`" else piece for piece in split_pieces(raw)) if "{" in raw else ""
        return [make_unknown(raw)] if _BRACES.search(plain) else self._split_fields(raw)

    def text(self, raw: str) -> str:
        """Expand a word to one text, without splitting."""
        text = " ".join("".join(piece for piece, _ in group) for group in _split_words(self._split_pieces(raw)))
        self._state.spend(len(text))
        return self._expand_home(raw, text)

    def matches(self, text: str, raw: str) -> bool | None:
        """Tell whether a text matches a pattern: a word or `*`; None if unknown."""
        pattern = self.text(raw)
        if raw == "*" or find_unknowns(text) or find_unknowns(pattern) or not _WILD.isdisjoint(split_pieces(raw)):
            return True if raw == "*" else None
        return text == pattern

    def value(self, raw: str) -> Value:
        """Expand an assigned text or array."""
        if not raw.startswith("("):
            return self.text(raw)
        words = split_words(raw[1:-1])
        if any(re.match(r"\[[^\]]+\]=", word) for word in words):
            return make_unknown("an array with keys")
        return self._state.counted([text for word in words for text in self.expand(word)])

    def compute(self, text: str) -> int | None:
        """Return an expression's value; None if unknown.

        Raises:
            UsageError: it changes a variable.
        """
        written = "".join(piece for piece, _ in self._split_pieces(text, True))
        if has_change(written):
            raise self._state.refuse(self._state.at, f"`(({text}))` changes a variable, and is not read")
        try:
            return compute(written, self.number)
        except NotKnown:
            return None

    def number(self, name: str) -> str | None:
        """Return a variable's text for arithmetic; None if unknown."""
        self._state.spend(100)
        held = self._state.value(name)
        text = None if held is None else take_scalar(held).strip() or "0"
        return None if text is None or find_unknowns(text) else text

    def _split_fields(self, raw: str) -> list[str]:
        words: list[str] = []
        for group in _split_words(self._split_pieces(raw)):
            current: str | None = None
            for text, kind in group:
                if kind != "expanded":
                    current = (current or "") + text
                    continue
                fields = _FIELD.findall(text)
                if current is not None and text[:1].isspace():
                    words.append(current)
                    current = None
                if fields:
                    words += [(current or "") + fields[0], *fields[1:]]
                    current = None if text[-1:].isspace() else words.pop()
            words += [] if current is None else [current]
        words[:1] = [self._expand_home(raw, word) for word in words[:1]]
        return self._state.counted(words)

    def _expand_home(self, raw: str, text: str) -> str:
        home = _HOME.match(raw)
        if home is None or "HOME" not in self._state.variables:
            return text
        return text[: home.start(1)] + self._state.text("HOME") + text[home.end(1) :]

    def _split_pieces(self, raw: str, quoted: bool = False) -> Iterator[_Piece]:
        for piece in split_pieces(raw, quoted):
            if piece[0] == "\\":
                kept = "\\" if quoted and piece[1:] not in ("$", "`", '"', "\\", "\n") else ""
                yield kept + piece[1:].removeprefix("\n"), "quoted"
            elif piece[0] == "'" and not quoted:
                yield piece[1:-1], "quoted"
            elif piece[0] == '"' and not quoted:
                yield from self._read_string(piece[1:-1])
            elif piece[0] in "$`" and len(piece) > 1:
                for text, kind in self._expand(piece, quoted):
                    yield text, "quoted" if quoted and kind == "expanded" else kind
            else:
                yield piece, "quoted" if quoted else "plain"

    def _read_string(self, inner: str) -> Iterator[_Piece]:
        found = list(self._split_pieces(inner, True))
        if not found and not re.search(r"\$\{?(?:\w+\[)?@", inner):
            found = [("", "quoted")]
        yield from found

    def _expand(self, piece: str, quoted: bool) -> Iterator[_Piece]:
        if piece.startswith("${"):
            yield from self._expand_parameter(piece, quoted)
        elif piece.startswith("$((") and piece.endswith("))"):
            yield self._compute(piece), "expanded"
        elif piece[1] == "(" or piece[0] == "`":
            yield self._read_output(piece), "expanded"
        elif piece in ("$@", "$*"):
            yield from self._join_several(self._state.arguments, piece[1] == "*" and quoted)
        else:
            yield self._state.text(piece[1:]), "expanded"

    def _compute(self, piece: str) -> str:
        inner = piece[3:-2]
        value = self.compute(inner)
        if value is not None:
            return str(value)
        names = re.findall(r"(?<!\w)[A-Za-z_]\w*", inner)
        missing = [name for name in dict.fromkeys(names) if self.number(name) is None]
        return make_unknown(missing[0] if len(missing) == 1 and not re.search(r"\$\((?!\()", inner) else piece)

    def _read_output(self, piece: str) -> str:
        inner = piece[2:-1] if piece[0] == "$" else re.sub(r"\\([$`\\])", r"\1", piece[1:-1])
        shown = f"$({inner})"
        if self._state.depth > limits.MAX_INNER:
            return make_unknown(shown)
        try:
            statements = parse(inner)
        except NotBash:
            return make_unknown(shown)
        if not statements:
            return ""
        self._state.depth += 1
        try:
            printed = self._capture(statements)
        finally:
            self._state.depth -= 1
        return make_unknown(shown) if printed is None else printed.rstrip("\n")

    def _expand_parameter(self, piece: str, quoted: bool) -> Iterator[_Piece]:
        found = _PARAMETER.fullmatch(piece[2:-1])
        if found is None or (found["rest"] and not found["sign"]):
            yield make_unknown(piece), "expanded"
            return
        name, index, sign = found["name"], found["index"], found["sign"] or ""
        is_list = index in ("@", "*") or name in ("@", "*")
        held = self._state.arguments if name in ("@", "*") else self._state.value(name)
        if found["count"] or sign == ":":
            yield make_unknown(piece), "expanded"
        elif sign.lstrip(":") in ("-", "=", "?", "+") and sign:
            yield from self._expand_default(name, self._find_item(name, index, held, is_list), found, quoted)
        elif is_list:
            items = [held] if isinstance(held, str) else held or []
            if held is None and self._state.variables.get(name) is None and name not in ("@", "*"):
                items = [make_unknown(name)]
            yield from self._join_several(items, "*" in (name, index) and quoted)
        else:
            value = self._find_item(name, index, held, False)
            value = self._state.text(name) if value is None else value
            if sign and not find_unknowns(value):
                value = make_unknown(piece)
            yield value, "expanded"

    def _find_item(self, name: str, index: str | None, held: Value | None, is_list: bool) -> str | None:
        """Return the value or array item to expand, or None."""
        if is_list or held is None:
            return " ".join(held) if isinstance(held, list) and held else held if isinstance(held, str) else None
        if isinstance(held, list) and index is not None:
            return make_unknown(f"{name}[{index}]")
        return self._state.text(name) or None if name.isdigit() else take_scalar(held)

    def _expand_default(self, name: str, value: str | None, found: re.Match[str], quoted: bool) -> Iterator[_Piece]:
        """Expand `${X:-y}`, `${X:=y}`, `${X:?why}` and `${X:+y}`."""
        if name.isdigit() or name == "#":
            value = self._state.text(name) or None
        sign, kind = found["sign"], found["sign"][-1]
        empty = not value if sign[0] == ":" else value is None
        if kind == "+":
            yield from () if empty else self._split_pieces(found["rest"], quoted and '"' not in found["rest"])
        elif not empty and value is not None:
            items = self._state.arguments if name in ("@", "*") else self._state.value(name)
            if isinstance(items, list) and "@" in (name, found["index"]):
                yield from self._join_several(items, False)
            else:
                yield value, "expanded"
        elif kind == "?":  # the script ends without it
            self._state.put(name, make_unknown(name))
            yield make_unknown(name), "expanded"
        elif kind == "=":
            text = self.text(found["rest"])
            self._state.put(name, text)
            yield text, "expanded"
        else:
            yield from self._split_pieces(found["rest"], quoted and '"' not in found["rest"])

    def _join_several(self, items: Sequence[str] | str, as_one: bool) -> Iterator[_Piece]:
        items = [items] if isinstance(items, str) else items
        if as_one:
            yield " ".join(items), "expanded"
            return
        for place, item in enumerate(items):
            if place:
                yield "", "end"
            yield item, "expanded"


def _split_words(pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
    """Yield the pieces of each word."""
    for is_end, group in itertools.groupby(pieces, lambda piece: piece[1] == "end"):
        if not is_end:
            yield list(group)


class NotKnown(ValueError):
    """Raised for unknown names and unsupported expressions."""


def has_change(text: str) -> bool:
    """Tell whether an expression changes a variable."""
    return _CHANGED.search(text[:_LONGEST]) is not None


def compute(text: str, lookup: Callable[[str], str | None]) -> int:
    """Return the value of an expression.

    Raises:
        NotKnown: it names something unknown, or is not read.
    """
    if len(text) > _LONGEST or has_change(text) or _OCTAL.search(text) or "," in text:
        raise NotKnown(text[:_LONGEST])
    tree = readers.parse_expression(re.sub(r"(?<!/)/(?!/)", "//", text).strip() or "0")
    if tree is None:
        raise NotKnown(text)
    try:
        value = _evaluate(tree, lookup)
    except (ZeroDivisionError, RecursionError):
        raise NotKnown(text) from None
    if not -_LARGEST <= value < _LARGEST:
        raise NotKnown(text)
    return value


def _evaluate(node: ast.AST, lookup: Callable[[str], str | None]) -> int:
    def inner(of: ast.AST) -> int:
        value = _evaluate(of, lookup)
        if not -_LARGEST <= value < _LARGEST:
            raise NotKnown(ast.unparse(of))
        return value

    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        held = lookup(node.id)
        if held is None:
            raise NotKnown(node.id)
        return compute(held, lookup)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -inner(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        right = inner(node.right)
        if isinstance(node.op, ast.Pow) and not 0 <= right <= _MAX_EXPONENT:
            raise NotKnown(ast.unparse(node))
        return _BINARY[type(node.op)](inner(node.left), right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        return int(_COMPARE[type(node.ops[0])](inner(node.left), inner(node.comparators[0])))
    raise NotKnown(ast.unparse(node))


def _divide(left: int, right: int) -> int:
    """Divide towards zero, as bash does."""
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def decide(tokens: Sequence[str], state: ShellState, expand: WordExpander, *, expanded: bool) -> bool | None:
    """Evaluate the words of `test`, expanded, or `[[ ... ]]`; None if unknown."""
    test = _Test(list(tokens), state, expand, expanded=expanded)
    return None if "(" in tokens else test.evaluate_or() if tokens else False


class _Test:
    def __init__(self, tokens: list[str], state: ShellState, expand: WordExpander, *, expanded: bool) -> None:
        self._tokens = tokens
        self._state = state
        self._expand = expand
        self._expanded = expanded
        self._and, self._or = ("-a", "-o") if expanded else ("&&", "||")
        state.spend(len(tokens) ** 2)

    def evaluate_or(self) -> bool | None:
        return self._join(self._or, lambda: self._join(self._and, self._evaluate_one, False), True)

    def _join(self, sign: str, evaluate: Callable[[], bool | None], decides: bool) -> bool | None:
        """Evaluate what a sign joins; one outcome decides."""
        found = [evaluate()]
        while self._tokens[:1] == [sign]:
            self._tokens.pop(0)
            found.append(evaluate())
        return decides if decides in found else None if None in found else not decides

    def _evaluate_one(self) -> bool | None:
        tokens = self._tokens
        if tokens[:1] == ["!"] and len(tokens) > 1:
            tokens.pop(0)
            inner = self._evaluate_one()
            return None if inner is None else not inner
        ends = (self._and, self._or)
        end = next((place for place, token in enumerate(tokens) if place and token in ends), len(tokens))
        words, tokens[:end] = tokens[:end], []
        return self._evaluate_primary(words)

    def _evaluate_primary(self, words: list[str]) -> bool | None:
        if len(words) == 1:
            text = self._read_text(words[0])
            return None if find_unknowns(text) else bool(text)
        if len(words) == 2:
            return self._evaluate_unary(words[0], self._read_text(words[1]))
        return self._evaluate_binary(self._read_text(words[0]), words[1], words[2]) if len(words) == 3 else None

    def _read_text(self, word: str) -> str:
        return word if self._expanded else self._expand.text(word)

    def _evaluate_unary(self, sign: str, text: str) -> bool | None:
        if sign in ("-z", "-n"):
            name = text[1:-1]
            if find_unknowns(text) == (name,) and name not in self._state.variables and "$" not in name:
                text = ""  # as in `${X:-}`: what nothing has set is empty, and --set sets it
            return None if find_unknowns(text) else bool(text) is (sign == "-n")
        found = self._state.found(text) if sign in _OF_FILES else None
        return None if found is None else _OF_FILES[sign](found)  # it may be on the machine of the run

    def _evaluate_binary(self, left: str, sign: str, word: str) -> bool | None:
        right = self._read_text(word)
        if find_unknowns(left) or find_unknowns(right):
            return None
        if sign in ("=", "==", "!="):
            same = left == right if self._expanded else self._expand.matches(left, word)
            return None if same is None else same is (sign != "!=")
        if sign not in _NUMBERS:
            return None
        try:
            return bool(compute(f"({left or 0}) {_NUMBERS[sign]} ({right or 0})", self._expand.number))
        except NotKnown:
            return None
