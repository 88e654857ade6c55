"""Reading a launch script: its assignments and expansions are worked out, and nothing of it is ever run."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from extractor.errors import UsageError
from extractor.fromrun.conditions import Conditions
from extractor.fromrun.expansion import MAX_ROUNDS, is_probe
from extractor.fromrun.text import readable, unknown, unknowns
from extractor.fromrun.variables import Command, Failure, Stop

_MAX_DEPTH = 20
_OVERRIDE = re.compile(r"[+~]*[a-z_]+(\.\w+)+=")
_QUIET = {"set", "echo", "printf", "mkdir", "cd", "ulimit", "wait", "trap", "sleep", "true", ":", "exit", "unset", "rm"}


@dataclass(frozen=True)
class Reading:
    """What was made of a script.

    Attributes:
        commands: Everything that it would run, in order.
        notes: What could not be known, or is not as it looks, with lines.
    """

    commands: tuple[Command, ...]
    notes: tuple[str, ...]


def read_script(
    text: str, file: str, given: Mapping[str, str], environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> Reading:
    """Work out what a script would run.

    Args:
        text: The script.
        file: Its path, for messages and for `$0`.
        given: Variables that the user has set; they win over what the script assigns by a default or by a command.
        environment: Variables that are there from the start.
        arguments: `$1`, `$2`...

    Raises:
        UsageError: the parser is not installed, or the text is no bash.
    """
    tree = _parser().parse(text.encode())
    reader = _Script(text.encode(), file, given, environment, arguments)
    if tree.root_node.has_error:
        bad = next(_errors(tree.root_node))
        line = bad.start_point[0] + 1
        if not any(True for _ in tree.root_node.named_children):
            raise UsageError(f"{file}: no bash script", hint="pass a script, a list of overrides or a YAML file")
        reader.notes.append(f"line {line}: not understood as bash")
    with contextlib.suppress(Stop):  # `exit`: what follows is not run
        reader.run(tree.root_node.children)
    return Reading(tuple(reader.commands), tuple(dict.fromkeys(reader.notes)))


def _parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise UsageError(
            "reading a script needs a parser of bash, which is not installed",
            hint="pip install 'vextract[scripts]' (tree-sitter, tree-sitter-bash), or pass a list of overrides instead",
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _errors(node: Any) -> Iterator[Any]:
    if node.type == "ERROR" or node.is_missing:
        yield node
    for child in node.children:
        if child.has_error or child.is_missing:
            yield from _errors(child)


class _Script(Conditions):
    """Statements, by the parser's names."""

    def run(self, nodes: Iterable[Any]) -> bool | None:
        """Read statements one after another; the outcome of the last as far as it is known."""
        outcome: bool | None = True
        for node in nodes:
            outcome = self._statement(node)
        return outcome

    def _statement(self, node: Any) -> bool | None:
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
        words = [word for word in words if word or len(words) > 1]
        if not words:
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._assign(child)
            return True
        return self._call(node, words, before)

    def _ends_line(self, assignment: Any, command: Any) -> bool:
        """Whether a line ends behind an assignment, which the parser has taken for the start of the next command."""
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
            del self._arguments[: int(words[1]) if len(words) > 1 and words[1].isdigit() else 1]
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
        kept = dict(self._variables)
        try:
            return self.run(node.named_children)
        except Stop:
            return None
        finally:
            self._variables = kept

    def _on_negated_command(self, node: Any) -> bool | None:
        outcome = self._statement(node.named_children[-1])
        return None if outcome is None else not outcome

    def _on_list(self, node: Any) -> bool | None:
        left, right = node.named_children[0], node.named_children[-1]
        outcome = self._statement(left)
        wanted = any(child.type == "&&" for child in node.children)
        if outcome is None:
            return self._perhaps([right.children if right.type == "compound_statement" else [right], []], right)
        return self._checked([right], node) if outcome is wanted else outcome

    def _checked(self, nodes: Iterable[Any], whole: Any) -> bool | None:
        """What a condition that holds leads to. A check that fails may not fail where the script is started."""
        try:
            return self.run(nodes)
        except Failure:
            self._note(whole, "by what is known of it, the script would end here with an error: read on")
            return None

    def _on_if_statement(self, node: Any) -> bool | None:
        return self._branches(node, node)

    def _branches(self, node: Any, whole: Any) -> bool | None:
        """An `if` or `elif`: what follows `then`, or the clauses behind it."""
        children = [child for child in node.children if child.type != "comment"]
        then = next(index for index, child in enumerate(children) if child.type == "then")
        condition = [child for child in children[:then] if child.is_named]
        clauses = [child for child in children[then:] if child.type in ("elif_clause", "else_clause")]
        if node.type == "elif_clause":
            siblings = [item for item in whole.children if item.type in ("elif_clause", "else_clause")]
            clauses = siblings[siblings.index(node) + 1 :]
        body = [child for child in children[then:] if child.is_named and child not in clauses]
        outcome = self.run(condition)
        if outcome:
            return self._checked(body, node)
        if outcome is None:
            return self._perhaps([body, clauses[:1]], node, whole)
        return self._otherwise(clauses, whole)

    def _otherwise(self, clauses: list[Any], whole: Any) -> bool | None:
        if not clauses:
            return True
        if clauses[0].type == "elif_clause":
            return self._branches(clauses[0], whole)
        return self.run(clauses[0].named_children)

    def _perhaps(self, ways: list[list[Any]], node: Any, whole: Any = None) -> bool | None:
        """A condition that is not known: what the ways differ in is not known behind it either."""
        self._doubts += 1
        before, results = dict(self._variables), []
        count = len(self.commands)
        for way in ways:
            self._variables = dict(before)
            try:
                if len(way) == 1 and way[0].type in ("elif_clause", "else_clause"):
                    self._otherwise(way, whole)
                else:
                    self.run(way)
            except Stop:
                if len(self.commands) == count:
                    continue  # a way that ends the script is not taken
            results.append(self._variables)
        self._variables = dict(before)
        names = sorted({name for result in results for name in result})
        differ = [name for name in names if any(result.get(name) != results[0].get(name) for result in results)]
        for name in results[0] if results else ():
            if name not in differ:
                self._variables[name] = results[0][name]
        for name in differ:
            self._put(name, unknown(name))
        if differ:
            self._note(node, f"a condition is not known, and with it not {', '.join(differ)}")
        return None

    def _on_case_statement(self, node: Any) -> bool | None:
        value = self._one(node.child_by_field_name("value"))
        items = [child for child in node.named_children if child.type == "case_item"]
        if unknowns(value):
            return self._perhaps([_case_body(item) for item in items], node)
        for item in items:
            if any(fnmatchcase(value, self._pattern(pattern)) for pattern in item.children_by_field_name("value")):
                return self._checked(_case_body(item), node)
        return True

    def _pattern(self, node: Any) -> str:
        return node.text.decode() if node.type == "extglob_pattern" else self._one(node)

    def _on_for_statement(self, node: Any) -> bool | None:
        name = node.child_by_field_name("variable").text.decode()
        values = [word for child in node.children_by_field_name("value") for word in self._words(child)]
        if not any(child.type == "in" for child in node.children):
            values = list(self._arguments)
        if len(values) > MAX_ROUNDS:
            self._note(node, f"only the first {MAX_ROUNDS} rounds of this loop were read")
        for value in values[:MAX_ROUNDS]:
            self._put(name, value)
            try:
                self._statement(node.child_by_field_name("body"))
            except Stop:
                continue
        return True

    def _on_while_statement(self, node: Any) -> bool | None:
        condition = node.child_by_field_name("condition")
        for _ in range(MAX_ROUNDS):
            outcome = self._statement(condition)
            if node.children[0].type == "until" and outcome is not None:
                outcome = not outcome
            if outcome is None:
                return self._perhaps([[node.child_by_field_name("body")], []], node)
            if not outcome:
                return True
            try:
                self._statement(node.child_by_field_name("body"))
            except Stop:
                break
        return None

    def _on_c_style_for_statement(self, node: Any) -> bool | None:
        return self._perhaps([[node.child_by_field_name("body")], []], node)


def _destinations(redirect: Any) -> int:
    return sum(1 for index, child in enumerate(redirect.named_children) if child.type == "file_descriptor") + 1


def _case_body(item: Any) -> list[Any]:
    values = item.children_by_field_name("value")
    return [child for child in item.named_children if child not in values]
