"""What a script writes into files that it runs, or gives other shells to read: `cat > run.sh <<EOF`, `sbatch <<EOF`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from extractor.importers.runs.bash.branches import Runner
from extractor.importers.runs.bash.commands import printed
from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.inputs import Input
from extractor.importers.runs.bash.scripts import Scripts, is_shell
from extractor.importers.runs.bash.state import Command, State
from extractor.importers.runs.bash.syntax import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

# They run a script that they read, here, on another machine, or later.
_READERS = ("sbatch", "qsub", "bsub", "ssh")
_PRINTS = ("echo", "printf")
_FILE, _DOCUMENT = "file_redirect", "heredoc_redirect"
_STATEMENTS = (
    *("command", "list", "redirected_statement", "subshell", "compound_statement"),
    *("while_statement", "for_statement", "if_statement", "case_statement"),
)


class Documents:
    """Notes what is written, and has what shells are given read.

    Args:
        state: Of the script.
        expansion: Works out words.
        scripts: Reads other scripts.
        interpreter: Reads the statements inside.
    """

    def __init__(self, state: State, expansion: Expansion, scripts: Scripts, interpreter: Runner) -> None:
        self._state = state
        self._expansion = expansion
        self._scripts = scripts
        self._interpreter = interpreter

    def follow(self, node: Node, ran: Sequence[Command]) -> bool | None:
        """Follow what a statement with redirections does with a text, once its command has run.

        What stands behind the start of a document, on its line, is read here.

        Args:
            node: The statement.
            ran: The commands that it has run.

        Returns:
            The outcome of what stands there; None: it is not known, or there is nothing.
        """
        document = next((child for child in node.children if child.type == _DOCUMENT), None)
        text = self._text(document, ran[0]) if len(ran) == 1 else None
        if text is not None:
            self._hand(node, text, ran[0], _files([*node.children, *(document.children if document else ())]))
        outcome = None
        for child in document.named_children if document is not None else ():
            if child.type == "pipeline":
                self._piped(child, text)
            elif child.type in _STATEMENTS:
                outcome = self._interpreter.statement(child)
        return outcome

    def pipe(self, node: Node, ran: Sequence[Command]) -> None:
        """Follow `echo COMMAND | bash`, once both have run.

        Args:
            node: The pipeline.
            ran: The commands that it has run.
        """
        if len(ran) == 2 and ran[0].words[0] in _PRINTS:
            text = self._text(None, ran[0])
            if text is not None:
                self._hand(node, text, ran[1], ())

    def _text(self, document: Node | None, command: Command) -> str | None:
        """Return what a command prints, or reads; None where that is not known."""
        if document is not None:
            return self._expansion.document(document)
        words = list(command.words)
        return printed(words, self._state, command.environment) if words[0] in _PRINTS else None

    def _piped(self, pipeline: Node, text: str | None) -> None:
        """Read what stands behind a document in a pipeline, and hand each of its commands the text."""
        for node in _stages(pipeline):
            count = len(self._state.commands)
            kept, self._state.input = self._state.input, Input(text)
            try:
                self._interpreter.apart([node])
            finally:
                self._state.input = kept
            ran = self._state.commands[count:]
            if text is not None and len(ran) == 1:
                self._hand(node, text, ran[0], ())

    def _hand(self, node: Node, text: str, command: Command, files: Sequence[tuple[str, Node]]) -> None:
        """Write a text into the files that a command names, or have the shell read it that the command starts."""
        words = command.words
        if words[0] in ("cat", *_PRINTS):
            for sign, target in files:
                self._state.write(self._expansion.one(target), text, more=sign == ">>")
        elif "tee" in words[:2]:
            more = "-a" in words
            for word in words[1:]:
                if not word.startswith("-") and word != "tee":
                    self._state.write(word, text, more=more)
        elif _reads(words):
            behind = words[words.index("-s") + 1 :] if "-s" in words else ()
            self._scripts.read(node, text, command.environment, behind[1:] if behind[:1] == ("--",) else behind)


def _reads(words: Sequence[str]) -> bool:
    """Tell whether a command runs the script that it reads: one that is given a script or a program reads data."""
    place = next((index for index, word in enumerate(words) if is_shell(word)), None)
    if place is not None:
        return "-s" in words[place:] or all(word.startswith("-") for word in words[place + 1 :])
    return posixpath.basename(words[0]) in _READERS and not any(word.startswith("python") for word in words)


def _stages(pipeline: Node) -> Iterator[Node]:
    """Yield the statements of a pipeline."""
    for child in pipeline.named_children:
        if child.type == "pipeline":
            yield from _stages(child)
        elif child.type in _STATEMENTS:
            yield child


def _files(nodes: Sequence[Node]) -> list[tuple[str, Node]]:
    """Return the files that an output goes to, and how: ">" or ">>"."""
    redirects = [node.children for node in nodes if node.type == _FILE and len(node.named_children) == 1]
    found = [(children[0].type, children[-1]) for children in redirects if children[0].type in (">", ">>")]
    return [(sign, target) for sign, target in found if text_of(target) != "/dev/null"]
