"""`vextract graph`: tree, picture, JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from extractor.cli.app import run
from extractor.project import lock
from extractor.usecases.graph import build
from extractor.usecases.graph.drawing import draw
from extractor.usecases.graph.matrix import draw_groups

SVG = "{http://www.w3.org/2000/svg}"


def test_the_tree(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", str(project), "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "toy: verl 0.6.1, engine hf, grpo"
    assert lines[1].startswith("├── hooks  5 files, ")
    actor = next(number for number, line in enumerate(lines) if "workers/dp_actor " in line)
    assert lines[actor].endswith("  vendored")
    assert ", vendored/protocol, " in lines[actor + 1]
    assert not any(line.endswith(" ") or "\x1b" in line for line in lines)


def test_the_groups(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", str(project)]) == 0
    lines = capsys.readouterr().out.splitlines()
    graph = build(project, lock.read(project))
    assert lines[0] == "toy: verl 0.6.1, engine hf, grpo"
    assert [line[:20].split("  ")[0] for line in lines[3:]] == [group.replace("_", " ") for group in graph.groups]
    (actor,) = [line for line in lines if line.startswith("actor ")]
    assert {"protocol", "algorithms"} <= set(actor.partition("-> ")[2].split(", "))


def test_the_picture_of_the_groups(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It needs no library, has a number for every pair of groups that import each other, and fits a page."""
    monkeypatch.setitem(sys.modules, "graphlay", None)
    target = tmp_path / "graph.svg"
    assert run(["graph", str(project), "--svg", str(target)]) == 0
    assert capsys.readouterr().err == f"wrote {target}\n"
    root = ElementTree.parse(target).getroot()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert 1000 < width < 1600
    assert height < 1000
    graph = build(project, lock.read(project))
    cells = [item for item in root.iter(f"{SVG}circle") if item.attrib["class"] == "cell"]
    assert len(cells) == len(graph.between())
    for cell in cells:
        assert 0 < float(cell.attrib["cx"]) < width
        assert 0 < float(cell.attrib["cy"]) < height
    counts = [int(item.text or "") for item in root.iter(f"{SVG}text") if item.attrib.get("class") == "count"]
    assert sorted(counts) == sorted(map(len, graph.between().values()))
    rows = [item for item in root.iter(f"{SVG}g") if item.attrib.get("class") == "row"]
    assert [next(row.iter(f"{SVG}text")).text for row in rows] == [group.replace("_", " ") for group in graph.groups]
    assert target.read_bytes() == draw_groups(graph).encode()


def test_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", str(project), "--vendored", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (protocol,) = [group for group in report["groups"] if group["name"] == "protocol"]
    assert protocol["modules"][0]["path"] == "toy/vendored/protocol.py"
    assert "toy/vendored/workers/dp_actor.py" in protocol["modules"][0]["imported_by"]
    assert protocol["lines"] == sum(module["lines"] for module in protocol["modules"])


def test_the_picture(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("graphlay")
    target = tmp_path / "graph.svg"
    assert run(["graph", str(project), "-v", "--svg", str(target)]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"wrote {target}\n")
    root = ElementTree.parse(target).getroot()
    graph = build(project, lock.read(project))
    texts = [item.text for item in root.iter(f"{SVG}text")]
    for module in graph.modules:
        assert module.name.removesuffix(".py") in texts
    assert {group.replace("_", " ") for group in graph.groups} <= set(texts)
    cards = [
        tuple(float(item.attrib[name]) for name in ("x", "y", "width", "height"))
        for item in root.iter(f"{SVG}rect")
        if item.attrib.get("class") == "card"
    ]
    assert len(cards) == len(graph.groups)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for x, y, wide, high in cards:
        assert left <= x < x + wide <= left + width
        assert top <= y < y + high <= top + height
    for number, (x, y, wide, high) in enumerate(cards):
        for other_x, other_y, other_wide, other_high in cards[:number]:
            apart = x >= other_x + other_wide or other_x >= x + wide or y >= other_y + other_high or other_y >= y + high
            assert apart
    between = {(a.group, b.group) for a in graph.modules for b in graph.modules if b.path in a.imports}
    edges = [item for item in root.iter(f"{SVG}path") if item.attrib.get("class", "").startswith("edge")]
    assert len(edges) == len({pair for pair in between if pair[0] != pair[1]})


def test_the_picture_is_the_same_in_every_process(project: Path) -> None:
    pytest.importorskip("graphlay")
    program = (
        "import sys; from pathlib import Path; from extractor.project import lock;"
        "from extractor.usecases.graph import build;"
        "from extractor.usecases.graph.drawing import draw; root = Path(sys.argv[1]);"
        "sys.stdout.write(draw(build(root, lock.read(root))))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program, str(project)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1] == draw(build(project, lock.read(project))).encode()


def test_without_the_library(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "graphlay", None)
    assert run(["graph", str(project), "-v", "--svg", str(tmp_path / "graph.svg")]) == 2
    assert "-m pip install 'graphlay>=0.3,<0.4'" in capsys.readouterr().err
    assert not (tmp_path / "graph.svg").exists()
    assert run(["graph", str(project)]) == 0


def test_a_place_that_cannot_be_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("graphlay")
    assert run(["graph", str(project), "--svg", str(project / "no/such/graph.svg")]) == 2
    assert "hint: " in capsys.readouterr().err
