"""Parse bash into statements, whose words stay as they are written."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field

from extractor.importers.runs.bash.quotes import NotBash, find_bracket, find_end

ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\[(?P<index>[^\]]*)\])?(?P<sign>\+?=)")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_REDIRECT = re.compile(r"(?P<number>\d*)(?P<sign>&>>|&>|<<<|<<-?|>>|[<>]&|<>|>\||[<>](?!\())")
_PLACEHOLDER = re.compile(r"<[A-Za-z_][^<>\n\"'`$&|;()\\]*>")
_NAME_OF_FUNCTION = re.compile(r"[\w:.-]+")
_ENDS_WORD = " \t\n;&|()<>"
_UNREAD = ("[[", "case", "coproc", "for", "select", "until", "while", "!")
_CLOSERS = ("then", "elif", "else", "fi", "do", "done", "esac", "}")


@dataclass(frozen=True)
class ShellStatement:
    """A parsed statement.

    Attributes:
        kind: "simple", "group", "pipeline", "&&", "||", "if" or "function".
        line: Where it begins.
        words: As they are written.
        parts: The statements in it: conditions and what follows each.
        redirects: The signs of a command's or a group's redirections: `2>`.
    """

    kind: str
    line: int
    words: tuple[str, ...] = ()
    parts: tuple[tuple[ShellStatement, ...], ...] = ()
    redirects: tuple[str, ...] = ()


def parse(text: str) -> tuple[ShellStatement, ...]:
    """Return the statements of a script.

    Raises:
        NotBash: it is no bash, or more than is read.
    """
    parser = _Parser(text)
    found = parser.statements()
    if parser.at < len(text):
        raise NotBash(parser.at, f"`{text[parser.at]}` has no beginning")
    return found


def split_words(text: str) -> list[str]:
    """Split a text into its words as written, across lines.

    Raises:
        NotBash: there is something else in it.
    """
    parser = _Parser(text)
    words = []
    parser.skip_lines()
    while parser.at < len(text):
        words.append(parser.word())
        parser.skip_lines()
    return words


def is_assignment(word: str) -> bool:
    """Tell whether a word assigns, as written."""
    return ASSIGNMENT.match(word) is not None


@dataclass
class _Parser:
    text: str
    at: int = 0
    lines: list[int] = field(default_factory=list)
    documents: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines = [found.start() for found in re.finditer("\n", self.text)]

    def line(self) -> int:
        return bisect.bisect_left(self.lines, self.at) + 1

    def statements(self, *ends: str) -> tuple[ShellStatement, ...]:
        """Parse statements up to one of the given words or signs."""
        found: list[ShellStatement] = []
        while True:
            self.skip_lines(";")
            word = self._peek()
            if self.at >= len(self.text) or word in ends or self.text.startswith(")", self.at) or word in _CLOSERS:
                break
            if self.text.startswith(";;", self.at):
                break
            start = self.at
            statement = self._parse_list()
            if self.at == start:
                raise NotBash(start, f"`{self.text[start]}` is not expected here")
            self._take("&")
            found.append(statement)
        return tuple(found)

    def skip_lines(self, more: str = "") -> None:
        """Skip blanks, comments, line ends and the here-documents after them."""
        while True:
            self._skip_blanks()
            if self.text.startswith("\n", self.at):
                self.at += 1
                self._read_documents()
            elif more and self.text.startswith(more, self.at) and not self.text.startswith(";;", self.at):
                self.at += 1
            else:
                return

    def word(self) -> str:
        """Take the next word as written."""
        start = self.at
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter in _ENDS_WORD:
                before = self.text[start : self.at]
                placeholder = _PLACEHOLDER.match(self.text, self.at) if "=" in before else None
                if placeholder is not None:
                    self.at = placeholder.end()
                    continue
                is_array = ASSIGNMENT.fullmatch(before) is not None
                is_pattern = before[-1:] in tuple("@!?*+")
                if letter == "(" and (is_array or is_pattern):
                    self.at = find_bracket(self.text, self.at + 1)
                    continue
                break
            self.at = find_end(self.text, self.at)
        if self.at == start:
            raise NotBash(start, f"`{self.text[start : start + 1]}` is not expected here")
        return self.text[start : self.at]

    def _skip_blanks(self) -> None:
        while True:
            blanks = _BLANKS.match(self.text, self.at)
            self.at = self.at if blanks is None else blanks.end()
            if not self.text.startswith("#", self.at):
                return
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _read_documents(self) -> None:
        waiting, self.documents = self.documents, []
        for sign, target in waiting:
            mark, tabs = re.escape(re.sub(r"[\\'\"]", "", target)), r"\t*" if sign == "<<-" else ""
            end = re.compile(rf"^{tabs}{mark}(\n|\Z)", re.MULTILINE).search(self.text, self.at)
            self.at = len(self.text) if end is None else end.end()

    def _peek(self) -> str:
        """Return the plain word here, without taking it."""
        found = re.compile(r"[^\s;&|()<>'\"$`\\]+").match(self.text, self.at)
        return "" if found is None else found[0]

    def _take(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def _expect(self, word: str) -> None:
        self.skip_lines(";" if word in ("then", "do") else "")
        if not self._take(word):
            raise NotBash(self.at, f"`{word}` is missing here")

    def _parse_list(self) -> ShellStatement:
        left = self._parse_pipeline()
        self._skip_blanks()
        while self.text[self.at : self.at + 2] in ("&&", "||"):
            sign = self.text[self.at : self.at + 2]
            self.at += 2
            self.skip_lines()
            left = ShellStatement(sign, left.line, parts=((left,), (self._parse_pipeline(),)))
            self._skip_blanks()
        return left

    def _parse_pipeline(self) -> ShellStatement:
        line = self.line()
        self._skip_blanks()
        parts = [self._parse_command()]
        self._skip_blanks()
        while self.text.startswith("|", self.at) and not self.text.startswith("||", self.at):
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self.skip_lines()
            parts.append(self._parse_command())
            self._skip_blanks()
        return parts[0] if len(parts) == 1 else ShellStatement("pipeline", line, parts=tuple((part,) for part in parts))

    def _parse_command(self) -> ShellStatement:
        word, line = self._peek(), self.line()
        if word in _UNREAD:
            raise NotBash(self.at, f"`{word}` is not read")
        if self.text.startswith("(", self.at):
            raise NotBash(self.at, "brackets of their own, `( ... )` or `(( ... ))`, are not read")
        kinds = {"if": self._parse_if, "function": self._parse_function, "{": self._parse_block}
        if word not in kinds:
            return self._parse_simple()
        found = kinds[word](line)
        redirects = self._parse_redirects()
        return ShellStatement("group", line, parts=((found,),), redirects=redirects) if redirects else found

    def _parse_simple(self) -> ShellStatement:
        line, words, redirects = self.line(), list[str](), list[str]()
        while True:
            redirects += self._parse_redirects()
            if self.at >= len(self.text) or self.text[self.at] in "\n;&|)":
                return ShellStatement("simple", line, tuple(words), redirects=tuple(redirects))
            if len(words) == 1 and self.text.startswith("(", self.at) and _NAME_OF_FUNCTION.fullmatch(words[0]):
                return self._parse_definition(line, words[0])
            words.append(self.word())

    def _parse_redirects(self) -> tuple[str, ...]:
        found = []
        self._skip_blanks()
        while (sign := _REDIRECT.match(self.text, self.at)) is not None:
            self.at = sign.end()
            self._skip_blanks()
            found.append(sign[0])
            target = self.word()
            self.documents += [(sign[0], target)] if sign["sign"] in ("<<", "<<-") else []
            self._skip_blanks()
        return tuple(found)

    def _parse_block(self, line: int) -> ShellStatement:
        self._expect("{")
        body = self.statements("}")
        self._expect("}")
        return ShellStatement("group", line, parts=(body,))

    def _parse_if(self, line: int) -> ShellStatement:
        parts: list[tuple[ShellStatement, ...]] = []
        while self._take("if") or self._take("elif"):
            condition = self.statements("then")
            self._expect("then")
            parts += [condition, self.statements("elif", "else", "fi")]
        if self._take("else"):
            parts += [(), self.statements("fi")]
        self._expect("fi")
        return ShellStatement("if", line, parts=tuple(parts))

    def _parse_function(self, line: int) -> ShellStatement:
        self._expect("function")
        self._skip_blanks()
        return self._parse_definition(line, self.word())

    def _parse_definition(self, line: int, name: str) -> ShellStatement:
        self._skip_blanks()
        if self._take("("):
            self._expect(")")
        self.skip_lines()
        return ShellStatement("function", line, (name,), ((self._parse_command(),),))
