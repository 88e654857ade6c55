"""Statements one after another: assignments, functions, and the commands that a script would run."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.aliases import Aliases
from extractor.importers.runs.bash.branches import Runner
from extractor.importers.runs.bash.commands import filtered, formatted, is_probe, printed
from extractor.importers.runs.bash.conditions import Conditions
from extractor.importers.runs.bash.declarations import Declarations
from extractor.importers.runs.bash.documents import Documents
from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.inputs import Input
from extractor.importers.runs.bash.reads import Reads
from extractor.importers.runs.bash.scripts import MAX_DEPTH, Scripts
from extractor.importers.runs.bash.state import Break, Command, Failure, Function, Return, State, Stop
from extractor.importers.runs.bash.syntax import field, mended, parse, text_of
from extractor.importers.runs.unknowns import number_of, readable, unknown, unknowns
from extractor.values import limits

if TYPE_CHECKING:
    from tree_sitter import Node

_OVERRIDE = re.compile(r"[+~]*[a-z_]+(\.\w+)+=")
_QUIET = {"set", "echo", "printf", "mkdir", "cd", "ulimit", "wait", "trap", "sleep", "true", ":", "exit", "unset", "rm"}
_IN_TERMINALS = {"new-session", "new", "new-window", "neww", "split-window", "splitw", "send-keys", "send"}


class Statements:
    """Simple statements, and what groups them.

    Args:
        state: Of the script.
        expansion: Works out words.
        conditions: Works out tests.
        interpreter: Reads the statements inside.
    """

    def __init__(self, state: State, expansion: Expansion, conditions: Conditions, interpreter: Runner) -> None:
        self._state = state
        self._expansion = expansion
        self._conditions = conditions
        self._interpreter = interpreter
        self._aliases = Aliases(state)
        self._reads = Reads(state, expansion)
        self._scripts = Scripts(state, interpreter)
        self._documents = Documents(state, expansion, self._scripts, interpreter)
        declarations = Declarations(state, expansion)
        self.handlers: dict[str, Callable[[Node], bool | None]] = {
            "variable_assignment": self._assignment,
            "variable_assignments": self._assignments,
            "declaration_command": declarations.declared,
            "unset_command": declarations.unset,
            "command": self._command,
            "function_definition": self._definition,
            "redirected_statement": self._redirected,
            "pipeline": self._pipeline,
            "compound_statement": self._compound,
            "do_group": self._compound,
            "program": self._compound,
            "subshell": self._subshell,
        }

    def _assignment(self, node: Node) -> bool:
        self._expansion.assign(node)
        return True

    def _assignments(self, node: Node) -> bool:
        for child in node.named_children:
            self._expansion.assign(child)
        return True

    def _command(self, node: Node) -> bool | None:
        name = node.child_by_field_name("name") if self._state.expands_aliases else None
        alias = self._aliases.expanded(node, name) if name is not None else None
        if alias is None:
            return self._given_input(node, lambda: self._simple(node))
        text, word = alias
        self._aliases.start(word)
        try:
            return self._evaluated(node, text, word)
        finally:
            self._aliases.end()

    def _simple(self, node: Node) -> bool | None:
        before: dict[str, str] = {}
        words: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment":
                if self._ends_line(child, node):
                    self._expansion.assign(child)
                    continue
                with self._state.scopes.with_variables(before):  # each sees those before it
                    name, value = text_of(child.children[0]), self._expansion.value(child.children[-1])
                if len(child.children) > 1 and isinstance(value, str):
                    before[name] = value if child.children[-1].type != "=" else ""
            elif child.type == "command_name":
                words.append(child.children[0] if child.children else child)
            elif child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                words.append(child)
        if len(words) == 1 and words[0].type == "command_substitution" and unknowns(self._expansion.one(words[0])):
            return self._interpreter.run(words[0].named_children)  # `command` alone in backticks
        texts = self._expansion.words_of(words)
        texts = self._state.counted([text for text in texts if text or len(texts) > 1])
        if not texts:
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._expansion.assign(child)
            return True
        count = len(self._state.commands)
        try:
            return self._call(node, texts, before)
        finally:
            self._redirect(node, count)

    def _ends_line(self, assignment: Node, command: Node) -> bool:
        """Tell whether a line ends after an assignment that the parser took for the start of the next command."""
        self._state.spend(50 * command.child_count)
        children = [child for child in command.children if child.start_byte >= assignment.start_byte]
        for child, following in itertools.pairwise(children):
            if child.type == "variable_assignment":
                gap = self._state.slice(child.end_byte, following.start_byte)
                if "\n" in gap.replace("\\\n", ""):
                    return True
        return False

    def _call(self, node: Node, words: list[str], before: dict[str, str]) -> bool | None:
        name = words[0]
        if name in ("[", "test"):
            return self._conditions.test([word for word in words[1:] if word != "]"])
        if name in ("exit", "return", "break", "continue"):
            raise _left(words)
        if self._aliases.told(words) or self._changes_state(words):
            return True
        if name in self._state.functions and self._state.depth < MAX_DEPTH:
            with self._state.scopes.with_variables(before):
                return self._function(node, name, words[1:])
        if name in ("source", "."):
            with self._state.scopes.with_variables(before):
                return self._scripts.source(node, words)
        if name in ("read", "mapfile", "readarray"):
            return self._reads.read(words[1:], before) if name == "read" else self._reads.mapfile(words[1:])
        if name == "eval":
            with self._state.scopes.with_variables(before):
                return self._evaluated(node, " ".join(words[1:]))
        if name == "tmux":
            return self._in_a_terminal(node, words)
        return self._started(node, words, before)

    def _started(self, node: Node, words: list[str], before: dict[str, str]) -> bool | None:
        """Read what a command starts: another script, or a program."""
        name = words[0]
        if _OVERRIDE.match(name):
            self._state.note(
                node, f"{readable(name)} is no part of the command above: a comment or a blank line ends it there"
            )
        if self._scripts.start(node, words, before):
            return None
        if "--help" in words[1:] and name not in _QUIET:
            return None  # it does nothing else
        words = words[:1] if name in (":", "true", "false") else words
        environment = self._state.environment()
        line = node.start_point[0] + 1
        self._state.commands.append(Command(tuple(words), line, {**environment, **before}))
        if is_probe(words) or name == "false":
            return False
        return True if name in _QUIET else None

    def _changes_state(self, words: list[str]) -> bool:
        """Carry out a command that changes the script's own state; False for any other."""
        state = self._state
        if words[0] == "shift":
            del state.arguments[: (number_of(words[1]) or 0) if len(words) > 1 else 1]
        elif words[0] == "set" and "--" in words:
            state.arguments = words[words.index("--") + 1 :]
        elif words[0] == "cd":
            to = [word for word in words[1:] if word not in ("--", "-L", "-P")] or [state.variable("HOME")]
            state.put("PWD", posixpath.normpath(posixpath.join(state.variable("PWD"), to[-1])))
            state.exported.add("PWD")
        elif words[0] == "let":
            for word in words[1:]:
                self._conditions.computed(word)
        elif words[0] == "printf" and words[1:2] == ["-v"] and len(words) > 2:
            text = None if any(map(unknowns, words)) else formatted(words[3:])
            state.put(words[2], unknown(words[2]) if text is None else text)
        else:
            return False
        return True

    def _given_input(self, node: Node, run: Callable[[], bool | None]) -> bool | None:
        """Read a statement that reads what its redirections name."""
        kept = self._state.input
        self._state.input = self._reads.input(node) or kept
        try:
            return run()
        finally:
            self._state.input = kept

    def _evaluated(self, node: Node, text: str, runs: str = "eval") -> bool | None:
        """`eval`: read a text as a part of the script."""
        whole = unknowns(text)
        if whole == (text[1:-1],) or self._state.depth >= MAX_DEPTH or len(text) > limits.MAX_INNER_TEXT:
            self._state.note(node, f"what `{runs}` runs here is not known")
            return None
        file = self._state.file
        inner = mended(text.encode(), file)
        with self._state.inside(inner, file, node.start_point[0] + 1):
            return self._interpreter.run(parse(inner, file).children)

    def _in_a_terminal(self, node: Node, words: list[str]) -> bool | None:
        """`tmux new-session "COMMANDS"`, `tmux send-keys "COMMANDS" Enter`: what another shell is given to run."""
        text = "\n".join(word for word in words[2:] if " " in word)
        if not text or words[1] not in _IN_TERMINALS:
            return None
        with self._state.scopes.apart():
            try:
                return self._evaluated(node, text, "tmux")
            except Stop:
                return None

    def _function(self, node: Node, name: str, arguments: list[str]) -> bool | None:
        kept, self._state.arguments = self._state.arguments, arguments
        function = self._state.functions[name]
        line = None if function.file == self._state.file else node.start_point[0] + 1
        count = len(self._state.commands)
        try:
            with self._state.inside(function.source, function.file, line), self._state.scopes.function():
                return self._interpreter.run(function.body.named_children)
        except Return as left:
            return left.outcome
        except Break:
            return None
        finally:
            self._state.arguments = kept
            self._redirect(function.definition, count)

    def _definition(self, node: Node) -> bool:
        name = field(node, "name")
        function = Function(field(node, "body"), self._state.source, self._state.file, node)
        self._state.functions[text_of(name)] = function
        return True

    def _redirected(self, node: Node) -> bool | None:
        body = node.child_by_field_name("body")
        if body is None:
            return None
        # The parser takes the words that stand behind a redirection for part of it.
        behind = [
            word
            for child in node.children
            if child.type == "file_redirect"
            for item in child.named_children[_destinations(child) :]
            for word in self._expansion.words(item)
        ]
        count = len(self._state.commands)
        outcome = self._given_input(node, lambda: self._interpreter.statement(body))
        self._redirect(node, count)
        if behind and body.type == "command" and len(self._state.commands) > count:
            last = self._state.commands[-1]
            self._state.commands[-1] = replace(last, words=(*last.words, *behind))
        behind_it = self._documents.follow(node, self._state.commands[count:])
        return outcome if behind_it is None else behind_it

    def _redirect(self, node: Node, count: int) -> None:
        """Note of the commands from one on that what they print goes elsewhere, where a redirection says so."""
        if any(child.type == "file_redirect" and _goes_elsewhere(child) for child in node.children):
            commands = self._state.commands
            commands[count:] = [replace(command, elsewhere=True) for command in commands[count:]]

    def _pipeline(self, node: Node) -> bool | None:
        count = len(self._state.commands)
        outcome: bool | None = True
        kept, text = self._state.input, self._state.input
        try:
            for child in node.named_children:
                if child.type == "comment":
                    continue
                self._state.input, start, doubts = text, len(self._state.commands), self._state.doubts
                outcome = self._interpreter.apart([child])
                ran = self._state.commands[start:]
                text = Input(self._printed(ran, text) if doubts == self._state.doubts else None)
        finally:
            self._state.input = kept
        self._documents.pipe(node, self._state.commands[count:])
        return outcome

    def _printed(self, ran: Sequence[Command], given: Input | None) -> str | None:
        """Return what commands print that read what another prints; None where that is not known."""
        outputs = [printed(list(item.words), self._state, item.environment) for item in ran if not item.elsewhere]
        if len(ran) == 1 and outputs == [None] and given is not None and given.text is not None:
            made = filtered(given.text.removesuffix("\n"), list(ran[0].words))
            return made if not made else f"{made}\n"
        return None if not ran or None in outputs else "".join(text for text in outputs if text)

    def _compound(self, node: Node) -> bool | None:
        if node.children and node.children[0].type == "((":
            return self._conditions.arithmetic(node)
        return self._interpreter.run(node.named_children)

    def _subshell(self, node: Node) -> bool | None:
        return self._interpreter.apart(node.named_children)


def _left(words: list[str]) -> Stop:
    """Return what a command leaves: the script, a function, or a round of a loop."""
    if words[0] == "exit":
        return Failure() if words[1:] not in ([], ["0"]) else Stop()
    number = number_of("".join(words[1:2]))
    if words[0] == "return":
        return Return(None if number is None else not number)
    return Break(number or 1, goes_on=words[0] == "continue")


def _goes_elsewhere(redirect: Node) -> bool:
    """Tell whether a redirection is one of the standard output, to a file or to the standard error."""
    children = [child for child in redirect.children if child.type != "file_descriptor"]
    descriptors = [text_of(child) for child in redirect.children if child.type == "file_descriptor"]
    sign, target = children[0].type, text_of(children[-1])
    if sign in ("&>", "&>>"):
        return True
    return sign.startswith(">") and descriptors[:1] in ([], ["1"]) and not (sign == ">&" and target == "1")


def _destinations(redirect: Node) -> int:
    return sum(1 for index, child in enumerate(redirect.named_children) if child.type == "file_descriptor") + 1
