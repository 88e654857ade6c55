"""The commands that only report: explain, versions, verify."""

from __future__ import annotations

import json
from pathlib import Path

from extractor import releases


def test_versions(run) -> None:
    result = run("versions")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split() == ["verl", *reversed(releases.supported())]
    assert len(lines) < 24
    # The matrix says what the manifests say.
    for line in lines[2:-1]:
        name, *marks = line.removeprefix("engine ").split()
        for release, mark in zip(reversed(releases.supported()), marks, strict=True):
            manifest = releases.load(release)
            has = name in {*manifest.engines, *(feature.name for feature in manifest.features)}
            assert mark == ("x" if has else "."), (name, release)
    newest = run("versions", releases.default()).out
    assert newest.startswith(f"verl {releases.default()} (default)\n  engines     hf, sglang, vllm\n")
    assert "    critic " in newest
    assert "(on with ppo)" in newest
    assert run("versions", "-v").out.startswith(newest)


def test_versions_of_a_name(run) -> None:
    assert run("versions", "gspo").out.startswith("gspo  a preset, for --algorithm\n  in verl 0.9.1, ")
    assert "an engine" in run("versions", "vllm").out
    assert "a feature: " in run("versions", "lora").out
    result = run("versions", "vlm")
    assert (result.code, result.out) == (2, "")
    assert "hint: did you mean vllm?" in result.err


def test_versions_as_json(run) -> None:
    report = json.loads(run("versions", "--json").out)
    assert [item["release"] for item in report] == list(reversed(releases.supported()))
    assert [item["default"] for item in report] == [True] + [False] * (len(report) - 1)
    assert {"name", "summary", "algorithms", "engines"} == set(report[0]["features"][0])


def test_explain_a_symbol(run, project: Path) -> None:
    result = run("explain", "agg_loss", project)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "verl.trainer.ppo.core_algos:agg_loss"
    assert lines[1] == "  in       toy/training/core_algos.py"
    assert lines[2].startswith("  whose    verl's: ")
    assert lines[3] == "  from     verl/trainer/ppo/core_algos.py"
    assert lines[4] == "  why      verl.trainer.ppo.core_algos:agg_loss is a root (role algorithms)"


def test_explain_a_file_as_json(run, project: Path, monkeypatch) -> None:
    monkeypatch.chdir(project)
    (report,) = json.loads(run("explain", "toy/workers/dp_actor.py", "--json").out)
    assert report["upstream_path"] == "verl/workers/actor/dp_actor.py"
    assert "DataParallelPPOActor" in report["symbols"]
    assert report["chain"][0]["how"] == "root"


def test_explain_what_is_not_there(run, project: Path) -> None:
    result = run("explain", "RayPPOTrainer", project)
    assert result.code == 2
    assert result.out == ""
    assert "RayPPOTrainer" in result.err
    assert "hint: " in result.err


def test_verify_outside_a_project(run, tmp_path: Path) -> None:
    result = run("verify", tmp_path)
    assert result.code == 2
    assert "not inside a vextract project" in result.err
