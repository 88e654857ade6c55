"""`vextract graph`: roles, modules, a diagram, JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from extractor.cli.app import run
from extractor.project import lock
from extractor.usecases.graph import build


def test_the_roles(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", str(project)]) == 0
    lines = capsys.readouterr().out.splitlines()
    graph = build(project, lock.read(project))
    assert lines[0] == "toy: verl 0.6.1, engine hf, grpo"
    assert [line[:20].split("  ")[0] for line in lines[3:]] == [group.replace("_", " ") for group in graph.groups]
    (actor,) = [line for line in lines if line.startswith("actor ")]
    assert {"protocol", "algorithms"} <= set(actor.partition("-> ")[2].split(", "))


def test_every_module(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", str(project), "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    actor = next(number for number, line in enumerate(lines) if line.startswith("  toy/vendored/workers/dp_actor.py  "))
    assert lines[actor].endswith(" lines, vendored")
    assert "toy/vendored/protocol.py" in lines[actor + 1].removeprefix("    -> ").split(", ")


def test_the_diagram(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", str(project), "--mermaid"]) == 0
    lines = capsys.readouterr().out.splitlines()
    graph = build(project, lock.read(project))
    assert lines[0] == "flowchart LR"
    numbers = dict(re.findall(r'^  (g\d+)\["([^<]+)<br>', "\n".join(lines), re.MULTILINE))
    assert list(numbers.values()) == [group.replace("_", " ") for group in graph.groups]
    arrows = [re.fullmatch(r"  (g\d+) -->\|(\d+)\| (g\d+)", line) for line in lines[1 + len(numbers) :]]
    drawn = {(numbers[found[1]], numbers[found[3]]): int(found[2]) for found in arrows if found is not None}
    wanted = {tuple(name.replace("_", " ") for name in pair): len(found) for pair, found in graph.between().items()}
    assert drawn == wanted


def test_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", str(project), "--vendored", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (protocol,) = [group for group in report["groups"] if group["name"] == "protocol"]
    assert protocol["modules"][0]["path"] == "toy/vendored/protocol.py"
    assert "toy/vendored/workers/dp_actor.py" in protocol["modules"][0]["imported_by"]
    assert protocol["lines"] == sum(module["lines"] for module in protocol["modules"])
