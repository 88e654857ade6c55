"""Merge Python by statements, whatever their layout.

An editor that formats a file on saving changes most of its lines, and nothing of what it says. So does upstream when it
takes another formatter.
"""

import ast
import inspect
import io
import itertools
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from extractor.pipeline.merge.lines import Labels, Merged, merge_lines
from extractor.pipeline.merge.pieces import order_keys
from extractor.values import fingerprint, readers

# What makes a program of a line that is none alone: of the header of a block, of a clause, of a decorator.
_AROUND = (
    ("", ""),
    ("", " pass"),
    ("if 0: pass\n", " pass"),
    ("try: pass\n", " pass"),
    ("match 0:\n ", " pass"),
    ("", "\ndef f(): pass"),
)
_CONFLICT = re.compile(
    r"^<<<<<<< [^\n]*\n(?P<ours>.*?)^\|\|\|\|\|\|\| [^\n]*\n(?P<base>.*?)^=======\n(?P<theirs>.*?)^>>>>>>> [^\n]*\n",
    re.DOTALL | re.MULTILINE,
)
_NOTHING = {tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT}
_MARKS = ("<<<<<<< ", "||||||| ", "=======", ">>>>>>> ")


@dataclass(frozen=True)
class MergeStatement:
    """Holds a logical line, or a comment on its own line.

    Attributes:
        key: What it says, on one line, after the column that it begins at.
        text: Its lines, with the empty ones above.
        is_wording: Whether it is a comment, or a text alone, such as a docstring.
        entry: Of a line of a dict or set display: its key there; "" for any other.
    """

    key: str
    text: str
    is_wording: bool
    entry: str = ""


Statements = Sequence[MergeStatement]
Entries = Mapping[str, MergeStatement]


def merge_statements(
    base: str, ours: str, theirs: str, labels: Labels, *, with_comments: bool = True, by_entry: bool = False
) -> Merged | None:
    """Merge Python statement by statement; return None if not Python.

    Where both sides changed a comment or a docstring, ours is taken.

    Args:
        base, ours, theirs: The texts.
        labels: What the markers of a conflict call them.
        with_comments: Whether comments are statements too; otherwise they belong to what they stand above.
        by_entry: Whether an entry of a display counts as a statement.

    Raises:
        UsageError: git is not installed, or cannot merge.
    """
    sides = [split_statements(text, with_comments=with_comments, by_entry=by_entry) for text in (base, ours, theirs)]
    if not all(sides):
        return None
    was, mine, new = ("".join(f"{item.key}\n" for item in side).encode() for side in sides)
    merged = merge_lines(was, mine, new, Labels("", "", "")).data.decode().split("\n")[:-1]
    found = _Text(sides, labels)
    for line in merged:
        found.take(line)
    text = "".join(found.parts)
    return Merged(text.encode(), found.conflicts) if found.conflicts or is_python(_wrap_indented(text)) else None


def merge_again(merged: Merged, base: str, ours: str, theirs: str, labels: Labels) -> Merged:
    """Merge conflicts of lines by statements; return the better result.

    What holds whole statements comes before what is cut in the middle of a text or of brackets.
    """
    whole = merge_statements(base, ours, theirs, labels)
    parts = merge_statements(base, ours, theirs, labels, by_entry=True) if whole is None or whole.conflicts else None
    candidates = (settle(merged), whole, parts)
    return min(filter(None, candidates), key=lambda item: (_is_cut(item), item.conflicts, len(item.data)))


def _is_cut(merged: Merged) -> bool:
    """Tell whether a conflict cuts through a string or brackets."""
    hunks = _CONFLICT.finditer(merged.data.decode())
    sides = [match[side] for match in hunks for side in ("ours", "theirs")]
    return not all(split_statements(side) for side in sides if side.strip())


def _wrap_indented(text: str) -> str:
    """Wrap the indented text of a method so that it parses."""
    return f"if 1:\n{text}" if text.lstrip("\n")[:1].isspace() else text


def is_no_edit(was: str | None, mine: str, new: str | None) -> bool:
    """Tell whether a side only reformats the base or older upstream.

    The latter only where the base has nothing: who puts another day's text in the place of one means it.

    Args:
        was, mine, new: The base's, the side's and the other side's; None where one has none.
    """
    if new is not None and is_same_python(mine, new):
        return True
    return is_same_python(mine, was) if was is not None else new is not None and is_upstreams(mine)


def settle(merged: Merged) -> Merged:
    """Resolve conflicts between texts that differ in layout only."""
    left = 0

    def settled(match: re.Match[str]) -> str:
        nonlocal left
        ours, base, theirs = match["ours"], match["base"], match["theirs"]
        if is_same_python(ours, base) or is_same_python(ours, theirs):
            return theirs
        if is_same_python(theirs, base):
            return ours
        left += 1
        return match[0]

    text = _CONFLICT.sub(settled, merged.data.decode())
    return Merged(text.encode(), left)


class _Text:
    """The merged text, built line by line."""

    def __init__(self, sides: Sequence[Sequence[MergeStatement]], labels: Labels) -> None:
        self.parts: list[str] = []
        self.conflicts = 0
        self._base, self._ours, self._theirs = ({item.key: item for item in side} for side in sides)
        self._labels = labels
        self._hunk: list[list[str]] = []

    def take(self, line: str) -> None:
        """Take the next line: a statement's key or a marker."""
        if not line.startswith(_MARKS):
            if self._hunk:
                self._hunk[-1].append(line)
            else:
                found = (side[line] for side in (self._theirs, self._ours, self._base) if line in side)
                self.parts.append(next(found).text)
        elif not line.startswith(_MARKS[-1]):
            self._hunk.append([])
        else:
            ours, base, theirs = (
                [side[key] for key in keys]
                for side, keys in zip((self._ours, self._base, self._theirs), self._hunk, strict=True)
            )
            self._hunk = []
            self._end(ours, base, theirs)

    def _end(self, ours: Statements, base: Statements, theirs: Statements) -> None:
        if all(item.is_wording for item in (*ours, *base, *theirs)):
            self.parts += [item.text for item in ours]
        elif all(item.entry for item in (*ours, *base, *theirs)):
            self._unite(*({item.entry: item for item in side} for side in (ours, base, theirs)))
        else:
            self._mark(ours, base, theirs)

    def _unite(self, ours: Entries, base: Entries, theirs: Entries) -> None:
        """Merge entries of a display by their keys."""
        for entry in order_keys(list(base), list(ours), list(theirs)):
            was, mine, new = ([side[entry]] if entry in side else [] for side in (base, ours, theirs))
            keys = [[item.key for item in side] for side in (was, mine, new)]
            if keys[0] in keys[1:] or keys[1] == keys[2]:
                self.parts += [item.text for item in (mine if keys[0] == keys[2] else new)]
            else:
                self._mark(mine, was, new)

    def _mark(self, ours: Statements, base: Statements, theirs: Statements) -> None:
        self.conflicts += 1
        self.parts.append(f"<<<<<<< {self._labels.ours}\n{_join_text(ours)}")
        self.parts.append(f"||||||| {self._labels.base}\n{_join_text(base)}")
        self.parts.append(f"=======\n{_join_text(theirs)}>>>>>>> {self._labels.theirs}\n")


def is_same_python(one: str, other: str) -> bool:
    """Tell whether two texts are the same Python, comments included."""
    if one == other:
        return True
    sides = [[item.key for item in split_statements(text)] for text in (one, other)]
    return sides[0] == sides[1] != []


def is_upstreams(text: str) -> bool:
    """Tell whether upstream ever had this top-level statement, comments included."""
    try:
        body = readers.parse_python(text).body
        return len(body) == 1 and fingerprint.fingerprint_with_comments(text) in fingerprint.load_upstream_texts()
    except (SyntaxError, tokenize.TokenError):
        return False


@lru_cache(maxsize=64)  # a text is compared with two others, and then merged
def split_statements(text: str, *, with_comments: bool = True, by_entry: bool = False) -> tuple[MergeStatement, ...]:
    """Split Python into statements or display entries; nothing if invalid."""
    lines = io.StringIO(text).readlines()  # as the tokenizer counts them
    found: list[MergeStatement] = []
    inside: list[tokenize.TokenInfo] = []  # the tokens of the present one
    done = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NEWLINE and inside:
                for part, is_entry in _split_display(inside) if by_entry else [(inside, False)]:
                    end = part[-1].end[0]
                    found.append(_make_statement(lines, part, "".join(lines[done:end]), with_comments, is_entry))
                    done = end
                inside = []
            elif token.type == tokenize.COMMENT and not inside:
                if with_comments:
                    found.append(MergeStatement(token.string, "".join(lines[done : token.end[0]]), True))
                    done = token.end[0]
            elif token.type not in _NOTHING:
                inside.append(token)
    except (tokenize.TokenError, SyntaxError):
        return ()
    whole = "".join(item.text for item in found) + "".join(lines[done:])
    return tuple(found) if whole == text and not "".join(lines[done:]).strip() else ()


def _make_statement(
    lines: Sequence[str], tokens: Sequence[tokenize.TokenInfo], text: str, with_comments: bool, is_entry: bool
) -> MergeStatement:
    comments = [item.string for item in tokens if item.type == tokenize.COMMENT and with_comments]
    code = [item for item in tokens if item.type != tokenize.COMMENT]
    if not code:
        return MergeStatement(comments[0], text, True, comments[0])
    said, entry = _write_logical_line(_join_tokens(lines, code)), ""
    if is_entry:
        display = readers.parse_python(f"{{{_join_tokens(lines, code)}}}").body[0]
        said = ast.unparse(display)
        value = display.value if isinstance(display, ast.Expr) else None
        key = value.keys[0] if isinstance(value, ast.Dict) and len(value.keys) == 1 else None
        entry = ast.unparse(key) if key is not None else said
    is_text = not comments and all(item.type in (tokenize.STRING, tokenize.COMMENT) for item in tokens)
    return MergeStatement(" ".join((str(code[0].start[1]), said, *comments)), text, is_text, entry)


def _split_display(tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[list[tokenize.TokenInfo], bool]]:
    """Yield the head, entries and rest of a multi-line display."""
    depth, opened, cuts = 0, 0, list[int]()  # cuts: where a part ends
    for index, (token, after) in enumerate(itertools.pairwise(tokens)):
        remark = after.type == tokenize.COMMENT and after.start[0] == token.end[0]
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        if not opened and token.string == "{" and after.start[0] > token.end[0]:
            opened, cuts = depth, [index + 1]
        elif opened and depth < opened:
            break
        elif opened and depth == opened and token.string == "for":
            cuts = []
            break
        elif opened and depth == opened and token.string == "," and (remark or after.start[0] > token.end[0]):
            cuts.append(index + 1 + remark)
        elif opened and depth == opened and token.type == tokenize.COMMENT and index == cuts[-1]:
            cuts.append(index + 1)
    closing = next((item for item in tokens[cuts[-1] :] if item.type != tokenize.COMMENT), None) if cuts else None
    if len(cuts) < 2 or closing is None or closing.string != "}":
        yield tokens, False
        return
    for start, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True):
        yield tokens[start:end], 0 < start < cuts[-1]


def _join_text(statements: Iterable[MergeStatement]) -> str:
    return "".join(item.text for item in statements)


def _join_tokens(lines: Sequence[str], tokens: Sequence[tokenize.TokenInfo]) -> str:
    """Return the text from the first token to the last."""
    (first, start), (last, end) = tokens[0].start, tokens[-1].end
    rows = [*lines[first - 1 : last - 1], lines[last - 1][:end]]
    return "".join((rows[0][start:], *rows[1:]))


def _write_logical_line(source: str) -> str:
    """Return a logical line in Python's own layout, on one line."""
    for before, after in _AROUND:
        try:
            tree = readers.parse_python(f"{before}{source}{after}")
        except SyntaxError:
            continue
        node = tree.body[0]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return repr([line.rstrip() for line in inspect.cleandoc(node.value.value).split("\n")])
        return f"{before!r} {ast.unparse(tree)!r}"
    return repr(" ".join(source.split()))


def is_python(text: str) -> bool:
    """Tell whether a text is Python."""
    try:
        readers.parse_python(text)
    except SyntaxError:
        return False
    return True
