"""The graph of a project, from its lock and its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extractor.project import lock
from extractor.usecases.graph import Graph, GraphModule, build


def read(project: Path) -> Graph:
    return build(project, lock.read(project))


def module(graph: Graph, path: str) -> GraphModule:
    return next(item for item in graph.modules if item.path == path)


def test_modules_stand_with_their_role(project: Path) -> None:
    graph = read(project)
    groups = {item.name: item.group for item in graph.modules}
    assert groups["vendored/algorithms/core_algos.py"] == "algorithms"
    assert groups["vendored/utils/groupwise.py"] == "algorithms"
    assert groups["vendored/workers/dp_actor.py"] == "actor"
    assert groups["vendored/workers/hf_rollout.py"] == "rollout"
    assert groups["vendored/workers/reward_manager/naive.py"] == "reward"
    assert groups["vendored/utils/device.py"] == "shared"
    assert groups["vendored/data/rl_dataset.py"] == "dataset"
    assert groups["data/datasets.py"] == "dataset"
    assert groups["training/trainer.py"] == "trainer"
    assert groups["custom/env_wrapper.py"] == "hooks"
    assert groups["shims/device.py"] == "shims"
    assert groups["main.py"] == "trainer"
    assert graph.groups[:2] == ("hooks", "trainer")
    assert graph.groups[-2:] == ("shared", "shims")


def test_what_a_module_is(project: Path) -> None:
    graph = read(project)
    actor = module(graph, "toy/vendored/workers/dp_actor.py")
    assert (actor.kind, actor.upstream_path, actor.edited) == ("vendored", "verl/workers/actor/dp_actor.py", False)
    assert actor.lines == (project / actor.path).read_bytes().count(b"\n")
    assert {"toy/vendored/protocol.py", "toy/vendored/algorithms/core_algos.py"} <= set(actor.imports)
    assert actor.path in graph.importers("toy/vendored/algorithms/core_algos.py")
    assert module(graph, "main.py").kind == "template"


def test_empty_packages_and_tests_are_left_out(project: Path) -> None:
    names = {item.path for item in read(project).modules}
    assert "toy/workers/__init__.py" not in names
    assert not any(name.startswith("tests/") for name in names)


def test_edges_stay_inside(project: Path) -> None:
    graph = read(project)
    names = {item.path for item in graph.modules}
    assert all({importer, imported} <= names and importer != imported for importer, imported in graph.edges())


def test_what_the_owner_does(project: Path) -> None:
    (project / "toy/vendored/protocol.py").unlink()
    (project / "toy/vendored/base_config.py").write_text("<<<<<<< mine\n")
    (project / "toy/custom/mine.py").write_text("from ..utils import device\nimport toy.vendored.protocol\nx = '\\d'\n")
    before, graph = read(project), read(project)
    assert before == graph
    assert module(graph, "toy/vendored/protocol.py").lines > 1000  # as it was emitted
    assert module(graph, "toy/vendored/base_config.py").edited
    mine = module(graph, "toy/custom/mine.py")
    assert (mine.kind, mine.group) == ("owner", "hooks")
    assert mine.imports == ("toy/vendored/protocol.py", "toy/vendored/utils/device.py")


def test_only_one_kind(project: Path) -> None:
    graph = read(project).only("vendored")
    assert {item.kind for item in graph.modules} == {"vendored"}
    assert "hooks" not in graph.groups
    names = {item.path for item in graph.modules}
    assert all({importer, imported} <= names for importer, imported in graph.edges())


def test_a_release_without_manifest_has_no_roles(project: Path) -> None:
    locked = lock.read(project)
    graph = build(project, replace(locked, options=replace(locked.options, verl="0.0.1")))
    assert module(graph, "toy/vendored/workers/dp_actor.py").group == "workers"
