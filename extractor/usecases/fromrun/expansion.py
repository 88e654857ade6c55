"""Words and values of a script: quotes, lists, expansions, and what commands would print."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Any

from extractor.usecases.fromrun.arithmetic import NotKnown, evaluate
from extractor.usecases.fromrun.parameters import Parameters
from extractor.usecases.fromrun.unknowns import number_of, unknown, unknowns
from extractor.usecases.fromrun.variables import Stop, Value, scalar, too_much
from extractor.values import limits

# What tells where a script lies is no longer than this.
_SHORT = 300
# Scripts for several kinds of machines look for the module of each; a project knows none of these.
_PROBE = re.compile(r"\S*python3? -c import torch_(npu|mlu|musa)\b")


class Expansions(Parameters):
    """From the parser's nodes to texts and words."""

    def _assign(self, node: Any) -> None:
        target = node.children[0]
        appends = any(child.type == "+=" for child in node.children)
        value = self._value(node.children[-1]) if node.children[-1].type not in ("=", "+=") else ""
        name = target.text.decode()
        if target.type == "subscript":
            name = target.children[0].text.decode()
            array = self._variables.get(name)
            index = self._one(target.named_children[-1])
            place = number_of(index)
            if isinstance(array, list) and place is not None and isinstance(value, str):
                array[place : place + 1] = [value]
                self._words_are(array)
            else:
                self._spend(20 * len(array or ""))
                entries = dict(array) if isinstance(array, dict) else {}
                self._variables[name] = {**entries, index: value if isinstance(value, str) else ""}
            return
        if appends:
            old = self._variables.get(name, [] if isinstance(value, list) else "")
            if isinstance(old, list):
                value = self._words_are([*old, *(value if isinstance(value, list) else [str(value)])])
            else:
                value = f"{scalar(old)}{scalar(value)}"
        self._put(name, value, keep=isinstance(value, str) and name in self._given)

    def _value(self, node: Any) -> Value:
        if node.type == "array":
            items = [child for child in node.named_children if child.type != "comment"]
            if any(child.type in ("variable_assignment",) for child in items):
                return {}
            text = self._words_are([word for child in items for word in self._words(child)])
            keyed = [re.fullmatch(r"\[([^\]]+)\]=(.*)", word, re.DOTALL) for word in text]
            if keyed and all(keyed):
                return {match[1].strip("\"'"): match[2] for match in keyed if match is not None}
            return text
        return self._one(node)

    def _one(self, node: Any) -> str:
        """Return the text of a node, without splitting it into words."""
        method = getattr(self, f"_text_of_{node.type}", None)
        if method is not None:
            text: str = method(node)
        elif node.named_children and node.type not in ("word", "number"):
            text = "".join(self._one(child) for child in node.children)
        else:
            text = _unescaped(node.text.decode())
        self._spend(len(text))
        if len(text) > limits.MAX_WORD:
            raise too_much(self._file, f"an expansion in it has more than {limits.MAX_WORD:,} characters")
        return text

    def _words(self, node: Any) -> list[str]:
        """Return a node as the words that it expands to."""
        if node.type in ("comment", "file_redirect"):
            return []
        if node.type == "string":
            return self._quoted_words(node)
        if node.type in ("simple_expansion", "expansion"):
            several = self._array(node)
            if several is not None:
                return several
            return self._words_are(self._one(node).split())
        if node.type == "command_substitution":
            text = self._one(node)
            return [text] if unknowns(text) else self._words_are(text.split())
        if node.type == "concatenation":
            return self._braces(node)
        return [self._one(node)]

    def _quoted_words(self, node: Any) -> list[str]:
        """Return a string; `"${A[@]}"` and `"$@"` inside it are as many words as they have."""
        words = [""]
        for text, several in self._string_parts(node):
            if several is None:
                words[-1] += text
            elif several:
                words[-1] += several[0]
                words += several[1:]
                self._words_are(words)
            elif len(node.named_children) == 1:
                return []
        return words

    def _braces(self, node: Any) -> list[str]:
        text = self._one(node)
        if "{" in text and any(child.type == "brace_expression" for child in node.children):
            match = re.search(r"\{([0-9]{1,18})\.\.([0-9]{1,18})\}", text)
            if match is not None:
                low, high = int(match[1]), int(match[2])
                numbers = range(low, high + 1)[: limits.MAX_ROUNDS]
                return [f"{text[: match.start()]}{number}{text[match.end() :]}" for number in numbers]
        return [text]

    def _string_parts(self, node: Any) -> list[tuple[str, list[str] | None]]:
        parts: list[tuple[str, list[str] | None]] = []
        at = node.start_byte + 1
        for child in node.named_children:
            if child.start_byte > at:
                parts.append((_in_quotes(self._slice(at, child.start_byte)), None))
            if child.type == "string_content":
                parts.append((_in_quotes(child.text.decode()), None))
            else:
                several = self._array(child)
                parts.append(("" if several is not None else self._one(child), several))
            at = child.end_byte
        if node.end_byte - 1 > at:
            parts.append((_in_quotes(self._slice(at, node.end_byte - 1)), None))
        return parts

    def _array(self, node: Any) -> list[str] | None:
        """Return the words of `$@`, `${A[@]}` and the like; None for anything else."""
        text = node.text.decode()
        if text in ("$@", "$*", "${@}", "${*}", "${@:1}"):
            return self._words_are(list(self._arguments))
        match = re.fullmatch(r"\$\{(\w+)\[[@*]\](?::?[-+].*)?\}", text, re.DOTALL)
        if match is not None:
            value = self._variables.get(match[1], [])
            if ":+" in text or "]+" in text:
                return self._array_alternative(node, match[1], value)
            return self._words_are(
                list(value) if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else [value]
            )
        return None

    def _array_alternative(self, node: Any, name: str, value: Value) -> list[str]:
        """`${A[@]+"${A[@]}"}`: the words behind the +, where there is such an array."""
        if not value:
            return []
        return [word for child in node.named_children[1:] for word in self._words(child)]

    def _text_of_string(self, node: Any) -> str:
        parts = self._string_parts(node)
        return "".join(text if several is None else " ".join(several) for text, several in parts)

    def _text_of_raw_string(self, node: Any) -> str:
        return str(node.text.decode()[1:-1])

    def _text_of_ansi_c_string(self, node: Any) -> str:
        inner = node.text.decode()[2:-1]
        known = {"n": "\n", "t": "\t", "'": "'", '"': '"', "\\": "\\"}
        return re.sub(r"\\(.)", lambda found: known.get(found[1], found[0]), inner)

    def _text_of_simple_expansion(self, node: Any) -> str:
        return self._variable(node.children[-1].text.decode())

    def _text_of_arithmetic_expansion(self, node: Any) -> str:
        text = node.text.decode()
        inner = text[3:-2] if text.startswith("$((") else text[2:-1]
        try:
            return str(evaluate(self._expand_inside(node, inner), self._number))
        except NotKnown:
            return unknown(text)

    def _expand_inside(self, node: Any, inner: str) -> str:
        """`${X:-2}` inside arithmetic, worked out."""
        for child in _descendants(node):
            if child.type == "expansion":
                self._spend(len(inner))
                inner = inner.replace(child.text.decode(), self._one(child) or "0", 1)
        return inner

    def _text_of_command_substitution(self, node: Any) -> str:
        text = node.text.decode()
        inner = [child for child in node.named_children if child.type != "comment"]
        if len(inner) == 1 and inner[0].type == "command":
            words = [word for child in inner[0].children for word in self._command_words(child)]
            known = self._known_command(words)
            if known is not None:
                return known
        if len(text) < _SHORT and re.fullmatch(r"\$\(\s*cd\s+.*dirname.*&&\s*pwd(\s+-P)?\s*\)", text, re.DOTALL):
            return posixpath.dirname(self._file) or "."
        captured = self._captured(inner)
        return unknown(text) if captured is None else captured

    def _captured(self, nodes: list[Any]) -> str | None:
        """Return what `a && echo b || echo c` prints, where that can be said without running anything."""
        self._spend(20 * (len(self.notes) + len(self._variables)))
        kept, notes, variables, doubts = self.commands, list(self.notes), dict(self._variables), self._doubts
        self.commands = []
        try:
            self.run(nodes)
        except Stop:
            pass
        finally:
            ran, self.commands, self.notes, self._variables = self.commands, kept, notes, variables
        printed = [self._known_command(list(command.words)) for command in ran]
        if not printed or None in printed or doubts != self._doubts:
            return None
        return "\n".join(text for text in printed if text)

    def _command_words(self, node: Any) -> list[str]:
        return self._words(node.children[0]) if node.type == "command_name" else self._words(node)

    def _known_command(self, words: list[str]) -> str | None:
        """Return what a harmless command prints, where that can be said without running it."""
        if not words or any(unknowns(word) for word in words):
            return None
        name, arguments = words[0], words[1:]
        if name in ("true", "false", ":") or is_probe(words):
            return ""
        if name == "pwd":
            return self._variable("PWD")
        if name == "dirname" and len(arguments) == 1:
            return posixpath.dirname(arguments[0]) or "."
        if name == "basename" and arguments:
            base = posixpath.basename(arguments[0])
            return base.removesuffix(arguments[1]) if len(arguments) > 1 else base
        if name in ("realpath", "readlink") and arguments:
            return arguments[-1]
        if name == "echo":
            return " ".join(item for item in arguments if item not in ("-n", "-e"))
        return None


def _descendants(node: Any) -> Iterable[Any]:
    for child in node.children:
        if child.type == "expansion":
            yield child
        else:
            yield from _descendants(child)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(\n|.)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)


def _in_quotes(text: str) -> str:
    return re.sub(r'\\([\n"$`\\])', lambda found: "" if found[1] == "\n" else found[1], text)


def is_probe(words: list[str]) -> bool:
    """Tell whether a command looks for an accelerator that a project does not run on."""
    return _PROBE.match(" ".join(words[:3])) is not None
