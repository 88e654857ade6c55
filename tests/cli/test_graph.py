"""`vextract graph`: folders, modules, a diagram, JSON."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.project import lock
from extractor.usecases.graph import Graph, GraphModule, build
from tests.cli.conftest import Result

pytestmark = pytest.mark.usefixtures("verl")
ACTOR, PROTOCOL = "toy/vendored/workers/dp_actor.py", "toy/vendored/protocol.py"


def read(project: Path) -> Graph:
    return build(project, lock.read(project))


def module(graph: Graph, path: str) -> GraphModule:
    return next(item for item in graph.modules if item.path == path)


def test_what_a_module_is(project: Path) -> None:
    graph = read(project)
    actor = module(graph, ACTOR)
    assert (actor.kind, actor.upstream_path, actor.edited) == ("vendored", "verl/workers/actor/dp_actor.py", False)
    assert actor.lines == (project / actor.path).read_bytes().count(b"\n")
    assert {PROTOCOL, "toy/vendored/algorithms/core_algos.py"} <= set(actor.imports)
    assert actor.path in graph.importers("toy/vendored/algorithms/core_algos.py")
    groups = {item.path: item.group for item in graph.modules}
    assert (groups[ACTOR], groups[PROTOCOL], groups["main.py"]) == ("vendored/workers", "vendored", ".")
    assert groups["toy/custom/env_wrapper.py"] == "custom"
    assert "toy/workers/__init__.py" not in groups
    assert not any(name.startswith("tests/") for name in groups)
    imports = {(item.path, target) for item in graph.modules for target in item.imports}
    assert all({importer, imported} <= groups.keys() and importer != imported for importer, imported in imports)


def test_what_the_owner_does(project: Path) -> None:
    (project / PROTOCOL).unlink()
    (project / "toy/vendored/base_config.py").write_text("<<<<<<< mine\n")
    (project / "toy/custom/mine.py").write_text("from ..utils import device\nimport toy.main\nx = '\\d'\n")
    graph = read(project)
    assert not any(item.path == PROTOCOL for item in graph.modules)
    assert module(graph, "toy/vendored/base_config.py").edited
    mine = module(graph, "toy/custom/mine.py")
    assert (mine.kind, mine.group) == ("owner", "custom")
    assert mine.imports == ("toy/vendored/utils/device.py",)


def test_what_is_printed(run: Callable[..., Result], project: Path) -> None:
    graph = read(project)
    lines = run("graph", project).out.splitlines()
    assert lines[0] == "toy: verl 0.6.1, engine hf, grpo"
    assert [line.split("  ")[0] for line in lines[3:]] == list(graph.groups)
    (workers,) = [line for line in lines if line.startswith("vendored/workers ")]
    assert {"vendored", "vendored/algorithms"} <= set(workers.partition("-> ")[2].split(", "))
    lines = run("graph", project, "-v").out.splitlines()
    actor = next(number for number, line in enumerate(lines) if line.startswith(f"  {ACTOR}  "))
    assert lines[actor].endswith(" lines, vendored")
    assert PROTOCOL in lines[actor + 1].removeprefix("    -> ").split(", ")
    report = json.loads(run("graph", project, "--json").out)
    kinds = {item["kind"] for group in report["groups"] for item in group["modules"]}
    assert kinds == {"vendored", "template", "hook"}
    (found,) = [group for group in report["groups"] if group["name"] == "vendored"]
    protocol = next(item for item in found["modules"] if item["path"] == PROTOCOL)
    assert ACTOR in protocol["imported_by"]
    assert found["lines"] == sum(module["lines"] for module in found["modules"])
