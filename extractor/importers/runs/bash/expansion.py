"""Words and values of a script: quotes, lists, expansions, and what commands would print."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.arrays import Arrays
from extractor.importers.runs.bash.braces import alternatives
from extractor.importers.runs.bash.commands import filtered, printed
from extractor.importers.runs.bash.items import Sparse, joined, key_of, keys_of, values_of, with_item
from extractor.importers.runs.bash.numbers import Numbers
from extractor.importers.runs.bash.parameters import Parameters
from extractor.importers.runs.bash.quoting import ansi
from extractor.importers.runs.bash.state import State, Stop, Value, scalar, too_much
from extractor.importers.runs.bash.syntax import (
    blanks_before,
    grouped,
    in_a_quoted_default,
    mended,
    parse,
    text_of,
)
from extractor.importers.runs.bash.texts import Texts
from extractor.importers.runs.unknowns import unknown, unknowns
from extractor.values import limits

if TYPE_CHECKING:
    from tree_sitter import Node

_HOME = re.compile(r"(?:[A-Za-z_]\w*=)?(~)(?=/|\Z)", re.ASCII)
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_PLAIN = re.compile(r"[\w./=:,+@%^-]*")


class Expansion:
    """From the parser's nodes to texts and words.

    Args:
        state: Of the script.
        run: Reads statements, for what commands in `$(...)` would print.
    """

    def __init__(self, state: State, run: Callable[[Iterable[Node]], bool | None]) -> None:
        self._state = state
        self._run = run
        self._parameters = Parameters(state, self.one, self._between_quotes)
        self.numbers = Numbers(state, self.one)
        self._texts_of = Texts(state, self._between_quotes)
        self._arrays = Arrays(state, self.words, self._parameters)
        self._texts: dict[str, Callable[[Node], str]] = {
            "string": self._string,
            "raw_string": self._raw,
            "ansi_c_string": lambda node: ansi(text_of(node)),
            "simple_expansion": lambda node: state.variable(text_of(node.children[-1])),
            "expansion": self._expansion,
            "arithmetic_expansion": self.numbers.text,
            "command_substitution": self._substitution,
        }

    def assign(self, node: Node, declare: Callable[[str], None] = lambda _name: None) -> None:
        """Carry out an assignment.

        Args:
            node: Of the parser.
            declare: Says what a variable of this name is, once its value is worked out.
        """
        target = node.children[0]
        appends = any(child.type == "+=" for child in node.children)
        value = self.value(node.children[-1]) if node.children[-1].type not in ("=", "+=") else ""
        name = text_of(target)
        if target.type == "subscript":
            name = text_of(target.children[0])
            declare(name)
            self._assign_item(name, self.one(target.named_children[-1]), scalar(value), appends)
            return
        declare(name)
        if appends:
            value = self._appended(name, value)
        self._state.put(name, value, keep=isinstance(value, str) and name in self._state.given)

    def _assign_item(self, name: str, index: str, text: str, appends: bool) -> None:
        name = self._state.name(name)
        array = self._state.variables.get(name)
        self._state.spend(20 * len(array or ""))
        place = key_of(self._state, array, index)
        if place is None and not (isinstance(array, dict) or unknowns(index)):  # a map that is declared elsewhere
            array, place = {}, index
        if place is None:
            self._state.put(name, unknown(name))
            return
        if appends:
            text = f"{dict(zip(keys_of(array), values_of(array), strict=True)).get(place, '')}{text}"
        self._state.variables[name] = with_item(array, place, text)

    def _appended(self, name: str, value: Value) -> Value:
        """Return what `X+=...` makes of a variable."""
        old = self._state.value(name)
        if isinstance(old, dict) and isinstance(value, dict) and not isinstance(value, Sparse):
            return {**old, **value}
        if isinstance(value, list):
            return joined(old, self._state.counted(value))
        if isinstance(old, (list, dict)):
            return with_item(old, "0", f"{scalar(old)}{scalar(value)}") if old else scalar(value)
        if "i" in self._state.attributes.get(self._state.name(name), ""):
            return f"({old or 0})+({scalar(value) or 0})"
        return f"{scalar(old or '')}{scalar(value)}"

    def value(self, node: Node) -> Value:
        """Return what is assigned: a text, or the words of an array."""
        if node.type == "array":
            items = [child for child in node.children if child.type not in ("comment", "(", ")")]
            if any(child.type in ("variable_assignment",) for child in items):
                return {}
            text = self._state.counted(self.words_of(items))
            keyed = [re.fullmatch(r"\[([^\]]+)\]=(.*)", word, re.DOTALL) for word in text]
            if keyed and all(keyed):
                return {match[1].strip("\"'"): match[2] for match in keyed if match is not None}
            return text
        return self._with_home(self.one(node), node)

    def one(self, node: Node) -> str:
        """Return the text of a node, without splitting it into words."""
        known = self._texts.get(node.type)
        if known is not None:
            text = known(node)
        elif node.named_children and node.type not in ("word", "number"):
            text = "".join(self.one(child) for child in node.children)
        else:
            text = _unescaped(text_of(node))
        self._state.spend(len(text))
        if len(text) > limits.MAX_WORD:
            raise too_much(self._state.file, f"an expansion in it has more than {limits.MAX_WORD:,} characters")
        return text

    def pattern(self, *nodes: Node) -> str:
        """Return the pattern that nodes are together, one behind another."""
        return self._texts_of.pattern(self._state.slice(nodes[0].start_byte, nodes[-1].end_byte).strip(), nodes[0])

    def words_of(self, nodes: Sequence[Node]) -> list[str]:
        """Return the words that nodes expand to; those with nothing between them are one word."""
        found: list[str] = []
        for group in grouped(nodes, self._state.source):
            if len(group) > 1 and group[0].type == "$":  # $"...": a text to be translated
                group = group[1:]
            found += self._group(group)
        return found

    def words(self, node: Node) -> list[str]:
        """Return a node as the words that it expands to."""
        return self._group([node])

    def _group(self, nodes: Sequence[Node]) -> list[str]:
        """Return the words of nodes with nothing between them."""
        nodes = [node for node in nodes if node.type not in ("comment", "file_redirect")]
        if not nodes:
            return []
        text = self._state.slice(nodes[0].start_byte, nodes[-1].end_byte) if len(nodes) > 1 else text_of(nodes[0])
        several = list(alternatives(text, self._state.spend)) if "{" in text and _BRACES.search(text) else [text]
        if several != [text]:
            return self._state.counted([word for item in several for word in self._read_again(item, nodes[0])])
        words = self._joined(nodes)
        return [self._with_home(words[0], nodes[0]), *words[1:]] if words else []

    def _read_again(self, text: str, node: Node) -> list[str]:
        """Return the words of a text that stands where a node does."""
        if _PLAIN.fullmatch(text):
            return [text] if text else []
        state = self._state
        source = mended(f"show {text}".encode(), state.file)
        with state.inside(source, state.file, node.start_point[0] + 1):
            return self.words_of(parse(source, state.file).children[0].children[1:])

    def _joined(self, nodes: Sequence[Node]) -> list[str]:
        """Return the words of nodes, where the last of one and the first of the next are one word."""
        words: list[str] = []
        goes_on = False
        for node in nodes:
            found, apart, ends = self._fields(node)
            some = bool(found)
            if goes_on and found and not apart:
                words[-1] += found.pop(0)
            words += found
            goes_on = not ends if some else goes_on and not apart
        return self._state.counted(words)

    def _fields(self, node: Node) -> tuple[list[str], bool, bool]:
        """Return the words of a node, and whether blanks part them from what stands before and behind it."""
        if node.type == "concatenation":
            return self._joined(node.children), False, False
        if node.type == "string":
            return self._quoted_words(node), False, False
        if node.type not in ("simple_expansion", "expansion", "command_substitution"):
            return [self.one(node)], False, False
        several = self._arrays.words(node) if node.type != "command_substitution" else None
        if several is not None:
            return list(several), False, False
        text = self.one(node)
        if node.type == "command_substitution" and unknowns(text):
            return [text], False, False
        separators = self._state.separators()
        return self._state.split(text), text[:1].isspace() and text[:1] in separators, text[-1:] in tuple(separators)

    def _with_home(self, text: str, node: Node) -> str:
        """Return a text with the home directory in place of a `~` that stands first and is not quoted."""
        match = _HOME.match(text_of(node))
        if match is None or "HOME" not in self._state.variables:
            return text
        return text[: match.start(1)] + self._state.variable("HOME") + text[match.end(1) :]

    def _quoted_words(self, node: Node) -> list[str]:
        """Return a string; `"${A[@]}"` and `"$@"` inside it are as many words as they have."""
        words = [""]
        for text, several in self._string_parts(node):
            if several is None:
                words[-1] += text
            elif several and len(several) == 1:
                words[-1] += several[0]
            elif several:
                words[-1] += several[0]
                words += several[1:]
                self._state.counted(words)
            elif len(node.named_children) == 1:
                return []
        return words

    def _string_parts(self, node: Node) -> list[tuple[str, list[str] | None]]:
        parts: list[tuple[str, list[str] | None]] = []
        at = node.start_byte + 1
        for child in node.named_children:
            if child.start_byte > at:
                parts.append((_in_quotes(self._state.slice(at, child.start_byte)), None))
            if child.type == "string_content":
                parts.append((_in_quotes(text_of(child)), None))
            else:
                parts.append((_in_quotes(blanks_before(child)), None))
                several = self._arrays.in_quotes(child)
                parts.append(("" if several is not None else self.one(child), several))
            at = child.end_byte
        if node.end_byte - 1 > at:
            parts.append((_in_quotes(self._state.slice(at, node.end_byte - 1)), None))
        return parts

    def _string(self, node: Node) -> str:
        parts = self._string_parts(node)
        return "".join(text if several is None else " ".join(several) for text, several in parts)

    def _raw(self, node: Node) -> str:
        """Return what single quotes hold; those of `"${A:-'$B'}"` are characters, and what is between them expands."""
        text = text_of(node)[1:-1]
        if not in_a_quoted_default(node):
            return text
        if '"' not in text and "$" in text:
            text = self._between_quotes(text, node)
        return f"'{text}'"

    def _between_quotes(self, text: str, node: Node) -> str:
        """Return what a text between double quotes expands to, which stands where a node does."""
        state = self._state
        source = mended(f'"{text}"'.encode(), state.file)
        with state.inside(source, state.file, node.start_point[0] + 1):
            return "".join(self.one(child) for child in parse(source, state.file).children)

    def _expansion(self, node: Node) -> str:
        several = self._arrays.words(node)
        return self._parameters.expanded(node) if several is None else " ".join(several)

    def output(self, node: Node) -> str:
        """Return what the command of `<(...)` prints."""
        text = self._substituted(node)
        is_whole = [child.type for child in node.named_children] == ["command"] or not text or text.endswith("\n")
        return text if is_whole or unknowns(text) == (text[1:-1],) else f"{text}\n"

    def _substitution(self, node: Node) -> str:
        return self._substituted(node).rstrip("\n")

    def _substituted(self, node: Node) -> str:
        text = text_of(node)
        if text.startswith("$((") and text.endswith("))"):  # the parser takes it for a subshell in a default
            return self.numbers.text(node)
        inner = [child for child in node.named_children if child.type != "comment"]
        if len(inner) == 1 and inner[0].type == "redirected_statement":
            document = self._document(inner[0])
            if document is not None:
                return document
        if len(inner) == 1 and inner[0].type == "file_redirect" and inner[0].children[0].type == "<":
            known = printed(["cat", self.one(inner[0].children[-1])], self._state)
            if known is not None:
                return known
        if len(inner) == 1 and inner[0].type == "command":
            words = [word for child in inner[0].children for word in self._command_words(child)]
            known = printed(words, self._state)
            if known is not None:
                return known
        if len(inner) == 1 and inner[0].type == "pipeline":
            known = self._piped(inner[0])
            if known is not None:
                return known
        captured = self._captured(inner)
        return unknown(text) if captured is None else captured

    def _piped(self, node: Node) -> str | None:
        """Return what `echo a | tr a b` prints; None where that cannot be said."""
        commands = [child for child in node.named_children if child.type != "comment"]
        if any(child.type != "command" for child in commands):
            return None
        text: str | None = None
        for index, command in enumerate(commands):
            words = self.words_of([part for child in command.children for part in _name_of(child)])
            text = printed(words, self._state) if index == 0 else filtered(text or "", words)
            if text is None:
                return None
            self._state.spend(len(text))
            text = text.rstrip("\n")
        return text

    def _document(self, node: Node) -> str | None:
        """Return what `cat <<EOF` prints; None for any other statement."""
        redirects = [child for child in node.children if child.type == "heredoc_redirect"]
        body = node.child_by_field_name("body")
        if len(redirects) != 1 or body is None or text_of(body) != "cat":
            return None
        return self.document(redirects[0]).rstrip("\n")

    def document(self, redirect: Node) -> str:
        """Return the text of a document that stands in the script: `<<EOF`."""
        parts = {child.type: child for child in redirect.named_children}
        content = parts.get("heredoc_body")
        if content is None:
            return ""
        if text_of(parts["heredoc_start"])[:1] in "'\"\\":
            return text_of(content)
        found, at = "", content.start_byte
        for child in content.named_children:
            found += _in_quotes(self._state.slice(at, child.start_byte))
            is_text = child.type == "heredoc_content"
            found += _in_quotes(text_of(child)) if is_text else _in_quotes(blanks_before(child)) + self.one(child)
            at = child.end_byte
        return found + _in_quotes(self._state.slice(at, content.end_byte))

    def _captured(self, nodes: list[Node]) -> str | None:
        """Return what `a && echo b || echo c` prints, where that can be said without running anything."""
        state = self._state
        state.spend(20 * len(state.notes))
        commands, notes, doubts = state.commands, list(state.notes), state.doubts
        state.commands = []
        try:
            with state.scopes.apart(), contextlib.suppress(Stop):
                self._run(nodes)
        finally:
            ran, state.commands, state.notes = state.commands, commands, notes
        shown = [command for command in ran if not command.elsewhere]
        outputs = [printed(list(command.words), state, command.environment) for command in shown]
        if not ran or None in outputs or doubts != state.doubts:
            return None
        return "".join(text for text in outputs if text)

    def _command_words(self, node: Node) -> list[str]:
        return self.words(node.children[0]) if node.type == "command_name" else self.words(node)


def _name_of(node: Node) -> list[Node]:
    return [node.children[0] if node.children else node] if node.type == "command_name" else [node]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(\n|.)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)


def _in_quotes(text: str) -> str:
    return re.sub(r'\\([\n"$`\\])', lambda found: "" if found[1] == "\n" else found[1], text)
