"""Expand bash words, compute its arithmetic on whole numbers, and evaluate its tests."""

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
_BINARY: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: _divide(left, right),
}
# `X = 2`, `X += 2`, `X++`, `--X`.
_CHANGED = re.compile(r"\w\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*[A-Za-z_]")
_OCTAL = re.compile(r"(?<![\w.])0[0-9]")
_LARGEST, _LONGEST = 2**63, 2_000
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


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
        plain = "".join("_" if piece[0] in "\\'\"$" else piece for piece in split_pieces(raw)) if "{" in raw else ""
        return [make_unknown(raw)] if _BRACES.search(plain) else self._split_fields(raw)

    def text(self, raw: str) -> str:
        """Expand a word to one text, without splitting."""
        text = " ".join("".join(piece for piece, _ in group) for group in _split_words(self._split_pieces(raw)))
        self._state.spend(len(text))
        return self._expand_home(raw, text)

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
        if _CHANGED.search(written[:_LONGEST]):
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
            elif piece[0] == "$" and len(piece) > 1:
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
        elif piece[1] == "(":
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
        inner = piece[2:-1]
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
        elif sign.lstrip(":") in ("-", "?", "+") and sign:
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
        """Expand `${X:-y}`, `${X:?why}` and `${X:+y}`."""
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


def compute(text: str, lookup: Callable[[str], str | None]) -> int:
    """Return the value of an expression.

    Raises:
        NotKnown: it names something unknown, or is not read.
    """
    if len(text) > _LONGEST or _CHANGED.search(text) or _OCTAL.search(text) or "," in text:
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
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        held = lookup(node.id)
        if held is None:
            raise NotKnown(node.id)
        return compute(held, lookup)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, lookup)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_evaluate(node.left, lookup), _evaluate(node.right, lookup))
    raise NotKnown(ast.unparse(node))


def _divide(left: int, right: int) -> int:
    """Divide towards zero, as bash does."""
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def decide(tokens: Sequence[str], state: ShellState, number: Callable[[str], str | None]) -> bool | None:
    """Evaluate the expanded words of `test`; None if unknown."""
    state.spend(len(tokens) ** 2)
    words = list(tokens)
    is_negated = len(words) > 1 and words[0] == "!"
    found = _evaluate_test(words[is_negated:], state, number)
    return None if found is None else found is not is_negated


def _evaluate_test(words: list[str], state: ShellState, number: Callable[[str], str | None]) -> bool | None:
    if len(words) == 1:
        return None if find_unknowns(words[0]) else bool(words[0])
    if len(words) == 2:
        return _evaluate_length(words[0], words[1], state)
    if len(words) != 3 or find_unknowns(words[0]) or find_unknowns(words[2]):
        return False if not words else None
    left, sign, right = words
    if sign in ("=", "==", "!="):
        return (left == right) is (sign != "!=")
    try:
        return _NUMBERS[sign](compute(left, number), compute(right, number)) if sign in _NUMBERS else None
    except NotKnown:
        return None


def _evaluate_length(sign: str, text: str, state: ShellState) -> bool | None:
    """Evaluate `-z` and `-n`; files may be on the machine of the run."""
    name = text[1:-1]
    if find_unknowns(text) == (name,) and name not in state.variables and "$" not in name:
        text = ""  # as in `${X:-}`: what nothing has set is empty, and --set sets it
    return None if sign not in ("-z", "-n") or find_unknowns(text) else bool(text) is (sign == "-n")
