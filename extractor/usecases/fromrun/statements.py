"""Statements one after another: assignments, functions, and the commands that a script would run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

from extractor.usecases.fromrun.conditions import Conditions
from extractor.usecases.fromrun.expansion import is_probe
from extractor.usecases.fromrun.unknowns import number_of, readable, unknown
from extractor.usecases.fromrun.variables import Command, Failure, Stop, too_much
from extractor.values import limits

_MAX_DEPTH = 20
_OVERRIDE = re.compile(r"[+~]*[a-z_]+(\.\w+)+=")
_QUIET = {"set", "echo", "printf", "mkdir", "cd", "ulimit", "wait", "trap", "sleep", "true", ":", "exit", "unset", "rm"}


class Statements(Conditions):
    """Statements, by the parser's names."""

    def run(self, nodes: Iterable[Any]) -> bool | None:
        """Read statements one after another; the outcome of the last as far as it is known."""
        outcome: bool | None = True
        for node in nodes:
            outcome = self._statement(node)
        return outcome

    def _statement(self, node: Any) -> bool | None:
        self._statements += 1
        if self._statements > limits.MAX_STATEMENTS:
            raise too_much(self._file, f"it runs more than {limits.MAX_STATEMENTS:,} statements")
        method = getattr(self, f"_on_{node.type}", None)
        if method is not None:
            result: bool | None = method(node)
            return result
        if node.is_named and node.type not in ("comment", "heredoc_body", "word", "ERROR"):
            self._note(node, f"{node.type.replace('_', ' ')} is not read")
        if node.type == "ERROR":
            self.run(node.named_children)
        return None

    def _on_variable_assignment(self, node: Any) -> bool:
        self._assign(node)
        return True

    def _on_variable_assignments(self, node: Any) -> bool:
        for child in node.named_children:
            self._assign(child)
        return True

    def _on_declaration_command(self, node: Any) -> bool:
        exports = node.children[0].type == "export" or b"-x" in self._source[node.start_byte : node.end_byte]
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child)
                child = child.children[0]
            if exports and child.type == "variable_name":
                self._exported.add(child.text.decode())
        return True

    def _on_unset_command(self, node: Any) -> bool:
        for child in node.named_children:
            self._variables.pop(child.text.decode(), None)
        return True

    def _on_command(self, node: Any) -> bool | None:
        before: dict[str, str] = {}
        words: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                if self._ends_line(child, node):
                    self._assign(child)
                    continue
                name, value = child.children[0].text.decode(), self._value(child.children[-1])
                if len(child.children) > 1 and isinstance(value, str):
                    before[name] = value if child.children[-1].type != "=" else ""
            elif child.type == "command_name":
                words += self._words(child.children[0] if child.children else child)
            elif child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                words += self._words(child)
        words = self._words_are([word for word in words if word or len(words) > 1])
        if not words:
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._assign(child)
            return True
        return self._call(node, words, before)

    def _ends_line(self, assignment: Any, command: Any) -> bool:
        """Tell whether a line ends after an assignment that the parser took for the start of the next command."""
        self._spend(50 * command.child_count)
        children = [child for child in command.children if child.start_byte >= assignment.start_byte]
        for child, following in itertools.pairwise(children):
            if child.type == "variable_assignment":
                gap = self._slice(child.end_byte, following.start_byte)
                if "\n" in gap.replace("\\\n", ""):
                    return True
        return False

    def _call(self, node: Any, words: list[str], before: dict[str, str]) -> bool | None:
        name = words[0]
        if name in ("[", "test"):
            return self._test([word for word in words[1:] if word != "]"], node)
        if name in ("exit", "return", "break", "continue"):
            raise Failure if name == "exit" and words[1:] not in ([], ["0"]) else Stop
        if name == "shift":
            del self._arguments[: (number_of(words[1]) or 0) if len(words) > 1 else 1]
            return True
        if name == "set" and "--" in words:
            self._arguments = words[words.index("--") + 1 :]
            return True
        if name in self._functions and self._depth < _MAX_DEPTH:
            return self._function(name, words[1:])
        if name in ("source", "."):
            self._note(node, f"{readable(words[-1])} is not read: set what it sets with --set VAR=VALUE")
        if name == "read":
            for variable in words[1:]:
                if not variable.startswith("-"):
                    self._put(variable, unknown(variable))
            return None
        if _OVERRIDE.match(name):
            self._note(
                node, f"{readable(name)} is no part of the command above: a comment or a blank line ends it there"
            )
        environment = {
            key: value for key, value in self._variables.items() if key in self._exported and isinstance(value, str)
        }
        self._spend(20 * len(self._variables) + 20 * len(environment))
        line = node.start_point[0] + 1
        self.commands.append(Command(tuple(words), line, {**environment, **before}))
        if is_probe(words) or name == "false":
            return False
        return True if name in _QUIET else None

    def _function(self, name: str, arguments: list[str]) -> bool | None:
        kept, self._arguments = self._arguments, arguments
        self._depth += 1
        try:
            return self.run(self._functions[name].named_children)
        except Stop:
            return None
        finally:
            self._depth -= 1
            self._arguments = kept

    def _on_function_definition(self, node: Any) -> bool:
        name = node.child_by_field_name("name")
        self._functions[name.text.decode()] = node.child_by_field_name("body")
        return True

    def _on_redirected_statement(self, node: Any) -> bool | None:
        body = node.child_by_field_name("body")
        if body is None:
            return None
        # The parser takes the words that stand behind a redirection for part of it.
        behind = [
            word
            for child in node.children
            if child.type == "file_redirect"
            for item in child.named_children[_destinations(child) :]
            for word in self._words(item)
        ]
        if behind and body.type == "command":
            count = len(self.commands)
            outcome = self._statement(body)
            if len(self.commands) > count:
                last = self.commands[-1]
                self.commands[-1] = Command((*last.words, *behind), last.line, last.environment)
            return outcome
        return self._statement(body)

    def _on_pipeline(self, node: Any) -> bool | None:
        return self.run([child for child in node.named_children if child.type != "comment"])

    def _on_compound_statement(self, node: Any) -> bool | None:
        if node.children and node.children[0].type == "((":
            return self._arithmetic_test(node)
        return self.run(node.named_children)

    _on_do_group = _on_program = _on_compound_statement

    def _on_subshell(self, node: Any) -> bool | None:
        self._spend(20 * len(self._variables))
        kept = dict(self._variables)
        try:
            return self.run(node.named_children)
        except Stop:
            return None
        finally:
            self._variables = kept


def _destinations(redirect: Any) -> int:
    return sum(1 for index, child in enumerate(redirect.named_children) if child.type == "file_descriptor") + 1
