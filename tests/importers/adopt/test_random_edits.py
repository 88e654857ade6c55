"""Random edits all over a fork: none may be lost, and what is called carried must stand in the project."""

import ast
import random
from pathlib import Path

import pytest

from extractor.importers.adopt import Outcome, adopt, recognise
from extractor.pipeline import generate
from extractor.pipeline.generate import complete
from extractor.pipeline.source import Source
from extractor.values import releases
from extractor.values.options import Options
from tests.importers.adopt.forks import Fork


def scatter(fork: Fork, source: Source, kept: list[str], chance: random.Random) -> list[str]:
    """Make edits, each with a token of its own, and return the tokens."""
    others = [path for path in source.files if path.endswith(".py") and path not in kept]
    tokens = []
    for number in range(60):
        path = chance.choice(kept if chance.random() < 0.8 else others).removeprefix("verl/")
        lines = fork.read(path).split("\n")
        place = chance.randrange(len(lines))
        if _is_import(lines, place):
            continue  # comments between imports stay behind
        indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
        token = f"TOKEN{number}END"
        if chance.random() < 0.5:
            lines.insert(place, f"{indent}{chance.choice(['# ', ''])}{token}")
        else:
            lines[place] = chance.choice([f"{lines[place]}  # {token}", f"{indent}# {token}"])
        text = "\n".join(lines)
        if number % 10:
            try:
                ast.parse(text)
            except SyntaxError:
                continue
        fork.write(path, text)
        tokens.append(token)
    return tokens


def _is_import(lines: list[str], place: int) -> bool:
    """Whether a line is of an import at the top, or above one."""
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return False
    nodes = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    ends = {
        node: min((other.lineno for other in body if other.lineno > node.lineno), default=len(lines)) for node in nodes
    }
    return any(node.lineno - 2 <= place <= end for node, end in ends.items())


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_no_edit_is_lost(tmp_path: Path, verl_0_6_1: Source, seed: int) -> None:
    manifest = releases.load("0.6.1")
    options = complete(Options("toy", "0.6.1"), manifest)
    made = generate.generate(options, verl_0_6_1, manifest)
    fork = Fork(tmp_path / "repo", verl_0_6_1, "abc.verl_x")
    kept = [module.upstream_path for module in made.sliced.modules]
    tokens = scatter(fork, verl_0_6_1, kept, random.Random(seed))
    adoption = adopt(recognise(fork.top, None), options, manifest)
    written = {path: data.decode() for path, data in adoption.plan.writes().items()}
    assert len(tokens) > 30
    for token in tokens:
        assert any(token in text for text in written.values()), token
    for edit in adoption.edits:
        for token in tokens:
            if token in edit.new:
                assert token in written[edit.where], (token, edit.symbol)
        assert edit.where.startswith("orphaned/") == (edit.outcome is Outcome.ORPHANED)
    for path, text in written.items():
        if path.endswith(".py") and not path.startswith("orphaned/"):
            ast.parse(text)
