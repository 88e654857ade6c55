"""Do what a page says: run every command of a Markdown page, in order, as its reader would.

    python scripts/walk.py PAGE [--in DIRECTORY] [--have hub,gpu]

Fenced blocks are run: `bash` holds commands; `console` has `$ ` before each command, and below it what that prints (a
line `...` there stands for any lines). All blocks of a page share one shell, so `cd` and `export` hold from one to the
next. Words after the language say more of a block:

    needs-NAME   not run unless `--have` names it (a GPU, a model hub, hours)
    exit=N       its last command ends with this exit code
    fresh        it starts in a new empty directory
    file=PATH    the block, of any language, is the text of this file, which is written

Blocks of other languages are there to be read.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

SHELLS = ("bash", "console")
SECONDS = 1800
SHOWN_LINES = 40
_KNOWN = re.compile(r"needs-[a-z]+|exit=\d+|fresh|file=\S+")


class WalkError(Exception):
    """A page cannot be walked to its end: the message says where, and what was printed there."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """Say where it stands."""
        return f"{self.page}:{self.line}"

    def value(self, name: str) -> str | None:
        """Return what follows `name=` among its words."""
        found = [word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")]
        return found[0] if found else None

    @property
    def needs(self) -> set[str]:
        """Say what must be there for it to run."""
        return {word.removeprefix("needs-") for word in self.words if word.startswith("needs-")}


@dataclass(frozen=True)
class Step:
    """Holds what the shell is given at once: a block of commands, or one command of a console and what it prints."""

    place: str
    commands: str
    exit_code: int = 0
    printed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Walk:
    """Holds what was done: the places of the steps that ran, and of the blocks left out, with what these lack."""

    ran: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)


def blocks_of(page: Path) -> list[Block]:
    """Read the fenced blocks of a page; raises WalkError where one says no language, or a word that means nothing."""
    found = []
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type != "fence" or token.map is None:
            continue
        language, *words = token.info.split() or [""]
        block = Block(page.name, token.map[0] + 1, language, tuple(words), token.content)
        if not language:
            raise WalkError(f"{block.place}: the block says no language (`text` for what is only to be read)")
        unknown = [word for word in words if not _KNOWN.fullmatch(word)]
        if unknown and language in SHELLS:
            raise WalkError(f"{block.place}: {unknown[0]} says nothing about a block")
        found.append(block)
    return found


def walk(page: Path, directory: Path, *, have: Iterable[str] = (), env: Mapping[str, str] | None = None) -> Walk:
    """Run the commands of a page.

    Args:
        page: a Markdown file.
        directory: where the shell starts; `fresh` blocks start in new directories beside what is there.
        have: what is at hand of what blocks need.
        env: the shell's environment; that of this process by default.

    Raises:
        WalkError: a command failed, printed something else, or the page is not as it should be.
    """
    steps: list[Step] = []
    left_out: dict[str, str] = {}
    for block in blocks_of(page):
        missing = block.needs - set(have)
        if missing:
            left_out[block.place] = ", ".join(sorted(missing))
        else:
            steps.extend(_steps(block))
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        _run(steps, Path(folder), directory, env)
    return Walk(tuple(step.place for step in steps), left_out)


def _steps(block: Block) -> list[Step]:
    fresh = 'cd "$(mktemp -d "$WALK_DIRECTORY/fresh-XXXXXX")"\n' if "fresh" in block.words else ""
    if (path := block.value("file")) is not None:
        quoted = shlex.quote(path)
        write = f"mkdir -p \"$(dirname {quoted})\"\ncat > {quoted} <<'END-OF-THE-BLOCK'\n{block.text}END-OF-THE-BLOCK\n"
        return [Step(block.place, fresh + write)]
    if block.language not in SHELLS:
        return []
    expected = int(block.value("exit") or 0)
    if block.language == "bash":
        return [Step(block.place, fresh + block.text, expected)]
    return _console(block, fresh, expected)


def _console(block: Block, fresh: str, expected: int) -> list[Step]:
    """Each command of a console with the lines below it; the last one ends with the block's exit code."""
    commands: list[tuple[int, str, list[str]]] = []
    for offset, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            commands.append((offset, line[2:], []))
        elif not commands:
            raise WalkError(f"{block.page}:{offset}: what is printed stands before any command")
        elif commands[-1][1].endswith("\\"):
            commands[-1] = (commands[-1][0], f"{commands[-1][1]}\n{line.removeprefix('> ')}", [])
        else:
            commands[-1][2].append(line)
    return [
        Step(
            f"{block.page}:{offset}",
            (fresh if number == 0 else "") + command,
            expected if number == len(commands) - 1 else 0,
            tuple(printed),
        )
        for number, (offset, command, printed) in enumerate(commands)
    ]


def _run(steps: list[Step], folder: Path, directory: Path, env: Mapping[str, str] | None) -> None:
    """One shell runs all steps; what each prints goes to a file of its own."""
    script = ["set -eo pipefail", f"cd {shlex.quote(str(directory))}"]
    for number, step in enumerate(steps):
        source = folder / f"{number}.sh"
        source.write_text(step.commands + "\n", encoding="utf-8")
        script.append(f"echo {number} > {folder}/reached")
        sourced = f". {source} > {folder}/{number}.out 2>&1 < /dev/null"
        if step.exit_code:
            script += ["set +e", sourced, "ended=$?", "set -e", f'[ "$ended" = {step.exit_code} ] || exit 99']
        else:
            script.append(sourced)
    script.append(f"echo all > {folder}/reached")
    environment = {"EDITOR": "true", "VISUAL": "true", "PAGER": "cat", **(os.environ if env is None else env)}
    environment["WALK_DIRECTORY"] = str(directory)
    try:
        done = subprocess.run(
            ["bash", "-c", "\n".join(script)],
            env=environment,
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        ended = f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        ended = f"not done after {SECONDS} seconds"
    reached = (folder / "reached").read_text(encoding="utf-8").strip() if (folder / "reached").exists() else "0"
    if reached != "all":
        step, printed = steps[int(reached)], _printed(folder, int(reached))
        raise WalkError(f"{step.place}: {ended}\n{step.commands.strip()}\n--\n" + "\n".join(printed[-SHOWN_LINES:]))
    for number, step in enumerate(steps):
        printed = _printed(folder, number)
        if step.printed and not prints(step.printed, printed):
            shown = "\n".join(printed[-SHOWN_LINES:])
            raise WalkError(f"{step.place}: the page shows other lines than `{step.commands}` prints:\n{shown}")


def _printed(folder: Path, number: int) -> list[str]:
    path = folder / f"{number}.out"
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def prints(shown: Iterable[str], printed: list[str]) -> bool:
    """Say whether a page shows the lines that were printed; `...` stands for any lines, or for a part of one."""
    pattern = []
    for line in (text.rstrip() for text in shown):
        if line == "...":
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append(".*".join(re.escape(part) for part in line.split("...")) + r"\s*\n")
    return re.fullmatch("".join(pattern), "".join(f"{line}\n" for line in printed)) is not None


def main() -> int:
    """Walk the page that the command line names."""
    parser = argparse.ArgumentParser(description="Run every command of a Markdown page, in order.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--in", dest="directory", type=Path, help="where to start; by default a new directory")
    parser.add_argument("--have", default="", help="what blocks may need, such as hub,gpu")
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="walk-"))
    try:
        done = walk(given.page.resolve(), directory.resolve(), have=given.have.split(","))
    except WalkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for place in done.ran:
        print(f"done      {place}")
    for place, missing in done.left_out.items():
        print(f"left out  {place}  (needs {missing})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
