"""Reading a launch script: its assignments and expansions are worked out, and nothing of it is ever run."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from extractor.errors import UsageError
from extractor.fromrun.arithmetic import NotKnown, evaluate
from extractor.fromrun.text import readable, unknown, unknowns

_MAX_ROUNDS = 64
_MAX_DEPTH = 20
_OVERRIDE = re.compile(r"[+~]*[a-z_]+(\.\w+)+=")
_QUIET = {"set", "echo", "printf", "mkdir", "cd", "ulimit", "wait", "trap", "sleep", "true", ":", "exit", "unset", "rm"}

Value = str | list[str] | dict[str, str]


@dataclass(frozen=True)
class Command:
    """A command that the script would run.

    Attributes:
        words: Name and arguments, expanded.
        line: Where it stands.
        environment: Exported variables, and those that stand before it.
    """

    words: tuple[str, ...]
    line: int
    environment: Mapping[str, str] = field(repr=False)


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


class _Stop(Exception):
    """`exit`, `return`, `break` or `continue`."""


class _Script:
    """The state of a script while it is read: its variables, and what it would have run."""

    def __init__(
        self,
        source: bytes,
        file: str,
        given: Mapping[str, str],
        environment: Mapping[str, str],
        arguments: Sequence[str],
    ) -> None:
        self._source = source
        self._file = file
        self._given = dict(given)
        self._variables: dict[str, Value] = {**environment, **given}
        self._exported: set[str] = set(environment) | set(given)
        self._arguments = list(arguments)
        self._functions: dict[str, Any] = {}
        self._depth = 0
        self.commands: list[Command] = []
        self.notes: list[str] = []

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

    def _note(self, node: Any, text: str) -> None:
        self.notes.append(f"line {node.start_point[0] + 1}: {text}")

    # Statements, by the parser's names.

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
            raise _Stop
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
        if name in ("true", ":", *_QUIET):
            return True
        return False if name == "false" else None

    def _function(self, name: str, arguments: list[str]) -> bool | None:
        kept, self._arguments = self._arguments, arguments
        self._depth += 1
        try:
            return self.run(self._functions[name].named_children)
        except _Stop:
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
        except _Stop:
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
        return self._statement(right) if outcome is wanted else outcome

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
            return self.run(body)
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
        before, results = dict(self._variables), []
        count = len(self.commands)
        for way in ways:
            self._variables = dict(before)
            try:
                if len(way) == 1 and way[0].type in ("elif_clause", "else_clause"):
                    self._otherwise(way, whole)
                else:
                    self.run(way)
            except _Stop:
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

    def _on_test_command(self, node: Any) -> bool | None:
        if node.children and node.children[0].type == "((":
            return self._arithmetic_test(node)
        return self._condition(node.named_children[0]) if node.named_children else False

    def _arithmetic_test(self, node: Any) -> bool | None:
        inner = self._slice(node.children[0].end_byte, node.children[-1].start_byte)
        try:
            return evaluate(inner, self._number) != 0
        except NotKnown:
            return None

    def _condition(self, node: Any) -> bool | None:
        """What stands between brackets."""
        if node.type == "parenthesized_expression":
            return self._condition(node.named_children[0])
        operators = [child.type for child in node.children if not child.is_named]
        if node.type == "binary_expression" and operators and operators[0] in ("&&", "||", "-a", "-o"):
            left, right = (self._condition(child) for child in (node.named_children[0], node.named_children[-1]))
            if operators[0] in ("&&", "-a"):
                return False if False in (left, right) else None if None in (left, right) else True
            return True if True in (left, right) else None if None in (left, right) else False
        if node.type == "unary_expression" and node.children[0].type == "!":
            inner = self._condition(node.named_children[-1])
            return None if inner is None else not inner
        words = []
        for child in node.children:
            if child.type in ("test_operator",) or not child.is_named:
                words.append(child.text.decode())
            elif child.type in ("extglob_pattern", "regex"):
                words.append(self._source[child.start_byte : child.end_byte].decode().strip("\"'"))
            else:
                words.append(self._one(child))
        if node.type not in ("binary_expression", "unary_expression"):
            words = [self._one(node)]
        return self._test(words, node)

    def _test(self, words: list[str], node: Any) -> bool | None:
        if words and words[0] == "!":
            inner = self._test(words[1:], node)
            return None if inner is None else not inner
        if len(words) == 2 and words[0] in ("-z", "-n") and unknowns(words[1]) == (words[1][1:-1],):
            # As `${X:-}` does: what nothing has set is empty, and `--set` sets it.
            words = [words[0], words[1] if words[1][1:-1] in self._variables or "$" in words[1] else ""]
        if any(unknowns(word) for word in words):
            return None
        if len(words) == 1:
            return bool(words[0])
        if len(words) == 2:
            if words[0] == "-v":
                return words[1] in self._variables
            return {"-z": not words[1], "-n": bool(words[1])}.get(words[0])
        return self._compared(*words) if len(words) == 3 else None

    def _compared(self, left: str, operation: str, right: str) -> bool | None:
        if operation in ("=", "=="):
            return fnmatchcase(left, right)
        if operation == "!=":
            return not fnmatchcase(left, right)
        if operation == "=~":
            try:
                return re.search(right, left) is not None
            except re.error:
                return None
        compare = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}.get(operation, operation)
        try:
            return bool(evaluate(f"{left or 0} {compare} {right or 0}", self._number))
        except NotKnown:
            return None

    def _on_case_statement(self, node: Any) -> bool | None:
        value = self._one(node.child_by_field_name("value"))
        items = [child for child in node.named_children if child.type == "case_item"]
        if unknowns(value):
            return self._perhaps([_case_body(item) for item in items], node)
        for item in items:
            if any(fnmatchcase(value, self._pattern(pattern)) for pattern in item.children_by_field_name("value")):
                return self.run(_case_body(item))
        return True

    def _pattern(self, node: Any) -> str:
        return node.text.decode() if node.type == "extglob_pattern" else self._one(node)

    def _on_for_statement(self, node: Any) -> bool | None:
        name = node.child_by_field_name("variable").text.decode()
        values = [word for child in node.children_by_field_name("value") for word in self._words(child)]
        if not any(child.type == "in" for child in node.children):
            values = list(self._arguments)
        if len(values) > _MAX_ROUNDS:
            self._note(node, f"only the first {_MAX_ROUNDS} rounds of this loop were read")
        for value in values[:_MAX_ROUNDS]:
            self._put(name, value)
            try:
                self._statement(node.child_by_field_name("body"))
            except _Stop:
                continue
        return True

    def _on_while_statement(self, node: Any) -> bool | None:
        condition = node.child_by_field_name("condition")
        for _ in range(_MAX_ROUNDS):
            outcome = self._statement(condition)
            if node.children[0].type == "until" and outcome is not None:
                outcome = not outcome
            if outcome is None:
                return self._perhaps([[node.child_by_field_name("body")], []], node)
            if not outcome:
                return True
            try:
                self._statement(node.child_by_field_name("body"))
            except _Stop:
                break
        return None

    def _on_c_style_for_statement(self, node: Any) -> bool | None:
        return self._perhaps([[node.child_by_field_name("body")], []], node)

    # Values.

    def _assign(self, node: Any) -> None:
        target = node.children[0]
        appends = any(child.type == "+=" for child in node.children)
        value = self._value(node.children[-1]) if node.children[-1].type not in ("=", "+=") else ""
        name = target.text.decode()
        if target.type == "subscript":
            name = target.children[0].text.decode()
            array = self._variables.get(name)
            index = self._one(target.named_children[-1])
            if isinstance(array, list) and index.isdigit() and isinstance(value, str):
                array[int(index) : int(index) + 1] = [value]
            else:
                entries = dict(array) if isinstance(array, dict) else {}
                self._variables[name] = {**entries, index: value if isinstance(value, str) else ""}
            return
        if appends:
            old = self._variables.get(name, [] if isinstance(value, list) else "")
            if isinstance(old, list):
                value = [*old, *(value if isinstance(value, list) else [str(value)])]
            else:
                value = f"{_scalar(old)}{_scalar(value)}"
        self._put(name, value, keep=isinstance(value, str) and name in self._given)

    def _put(self, name: str, value: Value, keep: bool = False) -> None:
        if not keep and name not in self._given:
            self._variables[name] = value

    def _value(self, node: Any) -> Value:
        if node.type == "array":
            items = [child for child in node.named_children if child.type != "comment"]
            if any(child.type in ("variable_assignment",) for child in items):
                return {}
            text = [word for child in items for word in self._words(child)]
            keyed = [re.fullmatch(r"\[([^\]]+)\]=(.*)", word, re.DOTALL) for word in text]
            if keyed and all(keyed):
                return {match[1].strip("\"'"): match[2] for match in keyed if match is not None}
            return text
        return self._one(node)

    def _one(self, node: Any) -> str:
        """The text of a node, without splitting it into words."""
        method = getattr(self, f"_text_of_{node.type}", None)
        if method is not None:
            text: str = method(node)
            return text
        if node.named_children and node.type not in ("word", "number"):
            return "".join(self._one(child) for child in node.children)
        return _unescaped(node.text.decode())

    def _words(self, node: Any) -> list[str]:
        """A node as the words that it expands to."""
        if node.type in ("comment", "file_redirect"):
            return []
        if node.type == "string":
            return self._quoted_words(node)
        if node.type in ("simple_expansion", "expansion"):
            several = self._array(node)
            if several is not None:
                return several
            return self._one(node).split()
        if node.type == "command_substitution":
            text = self._one(node)
            return [text] if unknowns(text) else text.split()
        if node.type == "concatenation":
            return self._braces(node)
        return [self._one(node)]

    def _quoted_words(self, node: Any) -> list[str]:
        """A string; `"${A[@]}"` and `"$@"` inside it are as many words as they have."""
        words = [""]
        for text, several in self._string_parts(node):
            if several is None:
                words[-1] += text
            elif several:
                words[-1] += several[0]
                words += several[1:]
            elif len(node.named_children) == 1:
                return []
        return words

    def _braces(self, node: Any) -> list[str]:
        text = self._one(node)
        if "{" in text and any(child.type == "brace_expression" for child in node.children):
            match = re.search(r"\{(\d+)\.\.(\d+)\}", text)
            if match is not None:
                low, high = int(match[1]), int(match[2])
                numbers = range(low, high + 1)[:_MAX_ROUNDS]
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
        """The words of `$@`, `${A[@]}` and the like; None for anything else."""
        text = node.text.decode()
        if text in ("$@", "$*", "${@}", "${*}", "${@:1}"):
            return list(self._arguments)
        match = re.fullmatch(r"\$\{(\w+)\[[@*]\](?::?[-+].*)?\}", text, re.DOTALL)
        if match is not None:
            value = self._variables.get(match[1], [])
            if ":+" in text or "]+" in text:
                return self._array_alternative(node, match[1], value)
            return (
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
        if re.fullmatch(r"\$\(\s*cd\s+.*dirname.*&&\s*pwd(\s+-P)?\s*\)", text, re.DOTALL):
            return posixpath.dirname(self._file) or "."
        return unknown(text)

    def _command_words(self, node: Any) -> list[str]:
        return self._words(node.children[0]) if node.type == "command_name" else self._words(node)

    def _known_command(self, words: list[str]) -> str | None:
        """What a harmless command prints, where that can be said without running it."""
        if not words or any(unknowns(word) for word in words):
            return None
        name, arguments = words[0], words[1:]
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

    def _text_of_expansion(self, node: Any) -> str:
        several = self._array(node)
        if several is not None:
            return " ".join(several)
        children = node.children[1:-1]
        if not children:
            return ""
        if children[0].type in ("#", "!"):
            return self._measured(children)
        first = children[0]
        name, value, known = self._named(first)
        if len(children) == 1:
            return value if known else self._variable(name)
        operation = children[1].type
        rest = self._slice(children[1].end_byte, node.end_byte - 1)
        operand = "".join(self._gapped(children[2:], children[1].end_byte, node.end_byte - 1))
        return self._operated(name, value if known else None, operation, operand, rest)

    def _operated(self, name: str, value: str | None, operation: str, operand: str, rest: str) -> str:
        empty = not value if operation.startswith(":") else value is None
        kind = operation.lstrip(":")
        if kind in ("-", "=", "?", "+"):
            return self._defaulted(name, value, kind, operand, empty)
        if value is None:
            return self._variable(name)
        if unknowns(value):
            return value
        if operation in ("%", "%%", "#", "##"):
            return _trimmed(value, operand, operation)
        if operation in ("/", "//", "/#", "/%"):
            pattern, _, new = rest.partition("/")
            pattern = self._loose(pattern)
            new = operand[len(pattern) + 1 :] if operand.startswith(f"{pattern}/") else self._loose(new)
            return value.replace(pattern, new, -1 if operation == "//" else 1)
        if operation in (",,", ","):
            return value.lower() if operation == ",," else value[:1].lower() + value[1:]
        if operation in ("^^", "^"):
            return value.upper() if operation == "^^" else value[:1].upper() + value[1:]
        if operation == ":":
            return _substring(value, rest)
        return unknown(f"${{{name}{operation}{rest}}}")

    def _defaulted(self, name: str, value: str | None, kind: str, operand: str, empty: bool) -> str:
        """`${X:-y}`, `${X:=y}`, `${X:?why}` and `${X:+y}`."""
        if kind == "+":
            return "" if empty else operand
        if not empty and value is not None:
            return value
        if kind == "?":
            return unknown(name)
        if kind == "=":
            self._put(name, operand)
        return operand

    def _loose(self, text: str) -> str:
        return re.sub(r"\$\{?(\w+)\}?", lambda found: self._variable(found[1]), text).strip("\"'")

    def _measured(self, children: list[Any]) -> str:
        target = children[-1]
        if children[0].type == "!":
            inner = self._variable(target.text.decode())
            return inner if unknowns(inner) else self._variable(inner)
        name = target.children[0].text.decode() if target.type == "subscript" else target.text.decode()
        value = self._variables.get(name, "")
        if target.type == "subscript" and isinstance(value, str):
            return str(int(bool(value)))
        return str(len(self._arguments) if name in ("@", "*") else len(value))

    def _named(self, node: Any) -> tuple[str, str, bool]:
        """Name and value of what an expansion is about, and whether it is set."""
        if node.type == "subscript":
            name = node.children[0].text.decode()
            index = self._one(node.named_children[-1])
            array = self._variables.get(name)
            if isinstance(array, dict):
                return name, array.get(index, ""), index in array
            items = array if isinstance(array, list) else [] if array is None else [str(array)]
            try:
                number = evaluate(index, self._number)
                return name, items[number], True
            except (NotKnown, IndexError):
                return name, "", False
        name = node.text.decode()
        if name.isdigit() or name in ("@", "*", "#"):
            value = self._variable(name)
            return name, value, bool(value)
        value_or = self._variables.get(name)
        return name, _scalar(value_or) if value_or is not None else "", value_or is not None

    def _variable(self, name: str) -> str:
        if name.isdigit():
            number = int(name)
            if number == 0:
                return self._file
            return self._arguments[number - 1] if number <= len(self._arguments) else ""
        if name in ("@", "*"):
            return " ".join(self._arguments)
        if name == "#":
            return str(len(self._arguments))
        if name == "BASH_SOURCE":
            return self._file
        if name in ("?", "$", "!", "RANDOM", "SECONDS", "HOSTNAME"):
            return unknown(f"${name}")
        value = self._variables.get(name)
        return unknown(name) if value is None else _scalar(value)

    def _number(self, name: str) -> str | None:
        value = self._variables.get(name)
        if value is None or not isinstance(value, str) or unknowns(value):
            return None if value is None or isinstance(value, str) else str(len(value))
        try:
            return str(evaluate(value, self._number)) if not re.fullmatch(r"[+-]?\d+", value) and value else value
        except (NotKnown, RecursionError):
            return None

    def _slice(self, start: int, end: int) -> str:
        return self._source[start:end].decode()

    def _gapped(self, nodes: list[Any], start: int, end: int) -> Iterable[str]:
        """Nodes with the blanks between them, as they stand in the source."""
        at = start
        for node in nodes:
            yield self._slice(at, node.start_byte)
            yield self._one(node)
            at = node.end_byte
        yield self._slice(at, end)


def _destinations(redirect: Any) -> int:
    return sum(1 for index, child in enumerate(redirect.named_children) if child.type == "file_descriptor") + 1


def _case_body(item: Any) -> list[Any]:
    values = item.children_by_field_name("value")
    return [child for child in item.named_children if child not in values]


def _descendants(node: Any) -> Iterable[Any]:
    for child in node.children:
        if child.type == "expansion":
            yield child
        else:
            yield from _descendants(child)


def _scalar(value: Value) -> str:
    if isinstance(value, list):
        return value[0] if value else ""
    return "" if isinstance(value, dict) else value


def _unescaped(text: str) -> str:
    return re.sub(r"\\(\n|.)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)


def _in_quotes(text: str) -> str:
    return re.sub(r'\\([\n"$`\\])', lambda found: "" if found[1] == "\n" else found[1], text)


def _trimmed(value: str, pattern: str, operation: str) -> str:
    lengths = range(len(value) + 1)
    longest = len(operation) == 2
    for length in reversed(lengths) if longest else lengths:
        if operation.startswith("%") and fnmatchcase(value[len(value) - length :], pattern):
            return value[: len(value) - length]
        if operation.startswith("#") and fnmatchcase(value[:length], pattern):
            return value[length:]
    return value


def _substring(value: str, rest: str) -> str:
    match = re.fullmatch(r"\s*(-?\d+)\s*(?::\s*(-?\d+))?\s*", rest)
    if match is None:
        return unknown(f"{value}:{rest}")
    start = int(match[1])
    tail = value[start:] if start >= 0 else value[len(value) + start :]
    if match[2] is None:
        return tail
    return tail[: int(match[2])]
