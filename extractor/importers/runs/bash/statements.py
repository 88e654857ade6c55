"""Interpret a script's statements as bash would, where outcomes are known."""

import itertools
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from extractor.importers.runs.bash import syntax
from extractor.importers.runs.bash.state import (
    Command,
    Failure,
    ShellState,
    Stop,
    Value,
    take_scalar,
)
from extractor.importers.runs.bash.syntax import ASSIGNMENT, ShellStatement
from extractor.importers.runs.bash.words import WordExpander, decide
from extractor.importers.runs.placeholders import find_unknowns, make_readable, make_unknown
from extractor.values.limits import MAX_EXPANDED, MAX_STATEMENTS

_OVERRIDE = re.compile(r"[+~]*[a-z_]+(\.\w+)+=")
_QUIET = {"set", "echo", "printf", "mkdir", "ulimit", "wait", "trap", "sleep", "true", ":", "rm", "shopt"}
_NAME = re.compile(r"[A-Za-z_]\w*")
_UNREAD = (
    *("$", "alias", "break", "continue", "declare", "getopts", "let", "mapfile", "popd", "pushd", "read", "readarray"),
    *("readonly", "shift", "typeset"),
)
_SHELL = re.compile(r"(?:.*/)?(?:ba|z)?sh|sbatch|qsub|bsub|ssh")
_SCRIPT = re.compile(r"[^=]*\.(?:sh|bash)")
_PRINTS = ("echo", "printf", "cat", "ls", "chmod", "cp", "mv", "rm", "grep", "sed")


class Interpreter:
    """Interprets statements; an outcome is True, False, or None if unknown.

    Args:
        state: Of the script.
    """

    def __init__(self, state: ShellState) -> None:
        self._state = state
        self._words = WordExpander(state, self._capture)
        self._handlers: dict[str, Callable[[ShellStatement], bool | None]] = {
            "simple": self._run_simple,
            "group": lambda node: self.run(node.parts[0]),
            "pipeline": lambda node: [self._run_apart(part) for part in node.parts][-1],
            "&&": self._run_both,
            "||": self._run_both,
            "if": self._run_if,
            "function": self._define,
        }
        self._builtins: dict[str, Callable[[int, list[str]], bool | None]] = {
            **dict.fromkeys(("[", "test"), self._test),
            **dict.fromkeys(("exit", "return"), self._leave),
            **dict.fromkeys(_UNREAD, self._refuse),
            "cd": self._change_folder,
            "unset": self._unset,
            "eval": self._evaluate,
        }

    def run(self, statements: Sequence[ShellStatement]) -> bool | None:
        """Read statements one after another; return the outcome of the last."""
        outcome: bool | None = True
        for node in statements:
            self._state.spend(MAX_EXPANDED // MAX_STATEMENTS)
            self._state.at = node.line
            outcome = self._handlers[node.kind](node)
        return outcome

    def _run_apart(self, statements: Sequence[ShellStatement]) -> bool | None:
        with self._state.apart():
            try:
                return self.run(statements)
            except Stop:
                return None

    def _run_simple(self, node: ShellStatement) -> bool | None:
        count = len(list(itertools.takewhile(syntax.is_assignment, node.words)))
        assigned, raw = node.words[:count], node.words[count:]
        name = raw[0] if raw else ""
        if not raw:
            for word in assigned:
                self._assign(node.line, word)
            return True
        if name == "export":
            return self._export(node.line, raw)
        if (name, raw[1:2]) in (("set", ("--",)), ("printf", ("-v",))):
            self._refuse(node.line, raw)
        before: dict[str, str] = {}
        kept = self._state.variables
        self._state.variables = dict(kept)
        for word in assigned:  # each sees those before it
            name = word.partition("=")[0].rstrip("+")
            before[name] = take_scalar(self._words.value(word.partition("=")[2]))
            self._state.variables[name] = before[name]
        self._state.variables = kept
        words = self._state.counted([text for word in raw for text in self._words.expand(word)])
        words = [word for place, word in enumerate(words) if word or place]
        if not words:
            return True
        return self._run_call(node.line, words, before)

    def _run_call(self, line: int, words: list[str], before: Mapping[str, str]) -> bool | None:
        state, name = self._state, words[0]
        if name in self._builtins:
            return self._builtins[name](line, words)
        if name in state.functions:
            raise state.refuse(line, f"the function `{name}` is called, which is not read")
        if name in ("source", "."):
            state.note(line, f"{make_readable(words[-1])} is not read: set what it sets with --set VAR=VALUE")
            return None
        return self._start(line, words, before)

    def _start(self, line: int, words: list[str], before: Mapping[str, str]) -> bool | None:
        """Record a started program."""
        state = self._state
        environment = {**state.environment(), **before}
        if _OVERRIDE.match(words[0]):
            what = f"{make_readable(words[0])} is no part of the command above: a comment or a blank line ends it there"
            state.note(line, what)
        note_script(words, line, state)
        words = words[:1] if words[0] in (":", "true", "false") else words
        state.commands.append(Command(tuple(words), line, environment))
        return False if words[0] == "false" else True if words[0] in _QUIET else None

    def _assign(self, line: int, word: str) -> None:
        found = ASSIGNMENT.match(word)
        if found is None or found["index"] is not None or found["sign"] != "=" or found["name"] == "IFS":
            raise self._state.refuse(line, f"`{word}` is not read")
        self._state.put(found["name"], self._words.value(word[found.end() :]))

    def _export(self, line: int, words: Sequence[str]) -> bool:
        for word in words[1:]:
            found = ASSIGNMENT.match(word)
            if found is not None:
                self._assign(line, word)
            elif _NAME.fullmatch(word) is None:
                self._refuse(line, words)
            self._state.exported.add(word if found is None else found["name"])
        return True

    def _unset(self, _line: int, words: list[str]) -> bool:
        for name in words[1:]:
            self._state.put(name, [])
        return True

    def _test(self, _line: int, words: list[str]) -> bool | None:
        inner = words[1:-1] if words[0] == "[" and words[-1] == "]" else words[1:]
        return decide(inner, self._state, self._words.number)

    def _leave(self, _line: int, words: list[str]) -> NoReturn:
        raise Failure if words[0] == "exit" and words[1:] not in ([], ["0"]) else Stop

    def _change_folder(self, _line: int, words: list[str]) -> bool:
        to = [word for word in words[1:] if word not in ("--", "-L", "-P")] or [self._state.text("HOME")]
        self._state.put("PWD", make_unknown("OLDPWD") if to[-1] == "-" else self._state.absolute(to[-1]))
        self._state.exported.add("PWD")
        return True

    def _refuse(self, line: int, words: Sequence[str]) -> NoReturn:
        raise self._state.refuse(line, f"`{make_readable(' '.join(words))}` is not read")

    def _evaluate(self, line: int, words: list[str]) -> None:
        text = " ".join(words[1:])
        if find_unknowns(text) != (text[1:-1],):
            self._refuse(line, words)
        self._state.note(line, "what `eval` runs here is not known")

    def _run_both(self, node: ShellStatement) -> bool | None:
        outcome = self.run(node.parts[0])
        if outcome is None:
            return self._run_perhaps([node.parts[1], ()], node.line)
        return self._run_checked(node.parts[1], node.line) if outcome is (node.kind == "&&") else outcome

    def _run_if(self, node: ShellStatement) -> bool | None:
        condition, body, *rest = node.parts
        outcome = self.run(condition) if condition else True
        if outcome:
            return self._run_checked(body, node.line)
        otherwise = [replace(node, parts=tuple(rest))] if rest else []
        return self._run_perhaps([body, otherwise], node.line) if outcome is None else self.run(otherwise)

    def _define(self, node: ShellStatement) -> bool:
        self._state.functions.add(node.words[0])
        return True

    def _run_checked(self, statements: Sequence[ShellStatement], line: int) -> bool | None:
        """Run conditional statements; note a failing exit and read on."""
        try:
            return self.run(statements)
        except Failure:
            self._state.note(line, "as far as is known the script would exit here with an error; reading continued")
            return None

    def _run_perhaps(self, ways: Sequence[Sequence[ShellStatement]], line: int) -> bool | None:
        """Run all branches of an unknown condition; differing variables become unknown."""
        state = self._state
        state.spend(50 * len(state.variables))
        before, count, results = state.variables, len(state.commands), list[dict[str, Value]]()
        for way in ways:
            state.variables = dict(before)
            try:
                self.run(way)
            except Stop:
                if len(state.commands) == count:
                    continue  # a way that ends the script is not taken
            results.append(state.variables)
        state.variables = dict(before)
        names = sorted({name for result in results for name in result})
        unsure = []
        for name in names:
            found = [result.get(name) for result in results]
            if all(value == found[0] for value in found):
                state.variables[name] = found[0] if found[0] is not None else []
            else:
                state.put(name, make_unknown(name))
                unsure.append(name)
        if unsure:
            state.note(line, f"a condition is unknown, and so is what depends on it: {', '.join(unsure)}")
        return None

    def _capture(self, statements: Sequence[ShellStatement]) -> str | None:
        """Return what `$(...)` prints; None if it runs anything but `cd` and what `find_output` knows."""
        if not all(map(_only_prints, statements)):
            return None
        state = self._state
        commands, notes, state.commands = state.commands, list(state.notes), []
        try:
            with state.apart():
                self.run(statements)
                folder = state.text("PWD")
                ran = [(command.words, command.environment.get("PWD") or folder) for command in state.commands]
        finally:
            state.commands, state.notes = commands, notes
        found = [find_output(words, folder) for words, folder in ran]
        return "".join(text for text in found if text) if found and None not in found else None


def _only_prints(node: ShellStatement) -> bool:
    if node.kind == "&&":
        return all(_only_prints(inner) for part in node.parts for inner in part)
    is_elsewhere = any(sign.startswith(("1", ">", "&>")) for sign in node.redirects)
    prints = not is_elsewhere and node.words[:1] != () and node.words[0] in ("pwd", *_PRINT)
    return node.kind == "simple" and (prints or node.words[:1] == ("cd",))


def note_script(words: Sequence[str], line: int, state: ShellState) -> None:
    """Note a shell script that a command starts."""
    shell = next(filter(_SHELL.fullmatch, words), None)
    script = next(filter(_SCRIPT.fullmatch, words), None)
    if words[0] not in _PRINTS and (script or shell):
        what = make_readable(script) if script else f"what `{shell}` runs"
        state.note(line, f"{what} is not read: pass it instead if it launches the run")


def find_output(words: Sequence[str], folder: str) -> str | None:
    """Return a command's output with its final newline; None if unknown."""
    if not words or any(map(find_unknowns, words)):
        return None
    name, arguments = words[0], list(words[1:])
    known = _PRINT.get(name)
    is_plain = known is not None and "".join(arguments[:1])[:1] != "-" and (arguments or name == "echo")
    found = folder if name == "pwd" else known(arguments) if known is not None and is_plain else None
    return None if found is None else f"{found}\n"


_PRINT: Mapping[str, Callable[[list[str]], str | None]] = {
    "echo": lambda words: " ".join(words),
    "basename": lambda words: posixpath.basename(words[0].rstrip("/")).removesuffix("".join(words[1:2])),
    "dirname": lambda words: (posixpath.dirname(words[0]) or ".") if len(words) == 1 else None,
}
