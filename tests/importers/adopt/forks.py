"""Forks: copies of verl as people make them, written out from the pinned wheels and edited."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extractor.pipeline.source import Source

ALGOS, TRAINER, METRICS = (f"trainer/ppo/{name}.py" for name in ("core_algos", "ray_trainer", "metric_utils"))
ACTOR, CONFIG = "workers/actor/dp_actor.py", "trainer/config/ppo_trainer.yaml"


def tree_of(root: Path) -> dict[str, bytes]:
    """All files below a directory, by their paths."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def fates(report: Mapping[str, Any]) -> dict[str, str]:
    """What became of each edit of a report, by file and symbol."""
    return {f"{item['upstream_path']}:{item['symbol']}": item["outcome"] for item in report["edits"]}


class Fork:
    """A copy of verl in a directory of somebody's repository.

    Attributes:
        top: The repository.
        root: What stands for upstream's verl/.
        prefix: The name under which it imports itself.
    """

    def __init__(self, top: Path, source: Source, prefix: str = "verl") -> None:
        self.top = top
        self.prefix = prefix
        self.root = top.joinpath(*prefix.split("."))
        for path, data in source.files.items():
            target = self.root / path.removeprefix("verl/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        if prefix != "verl":
            for file in self.root.rglob("*.py"):
                text = file.read_bytes().decode()
                text = re.sub(r"^([ \t]*(?:from|import) )verl(?=[. ])", rf"\1{prefix}", text, flags=re.MULTILINE)
                file.write_bytes(text.encode())

    def read(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())

    def append(self, path: str, text: str) -> None:
        self.write(path, self.read(path) + text)

    def into(self, path: str, function: str, line: str) -> None:
        """Put a line at the beginning of a function's or method's body, after its docstring."""
        text = self.read(path)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function:
                body = node.body
                first = body[1] if isinstance(body[0], ast.Expr) and len(body) > 1 else body[0]
                lines = text.split("\n")
                lines.insert(first.lineno - 1, " " * first.col_offset + line)
                self.write(path, "\n".join(lines))
                return
        raise AssertionError(f"{path} has no {function}")

    def change(self, path: str, old: str, new: str) -> None:
        """Put something in the place of the first `old`, which has to be there."""
        assert old in self.read(path), path
        self.write(path, self.read(path).replace(old, new, 1))

    def crlf(self, path: str) -> None:
        self.write(path, self.read(path).replace("\n", "\r\n"))
