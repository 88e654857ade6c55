"""Forks of other days than a release's: what upstream had then is no edit, and edits are found against it."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from extractor.pipeline.source import open_source
from extractor.values import releases
from extractor.values.fingerprint import fingerprint_statement, fingerprint_text, load_upstream_parts
from tests.importers.adopt.forks import ALGOS, CONFIG, TRAINER, Fork, fates
from tests.importers.conftest import put
from tests.releases import ALL, source_of

pytestmark = pytest.mark.thorough

RELEASE, EARLIER = "0.5.0", "0.4.1"
PROJECTS_ALGOS = "vendored/algorithms/core_algos.py"


def report_of(run: Any, fork: Fork, project: Path, *more: str) -> dict[str, Any]:
    result = run("adopt", fork.top, project, "--json", *more)
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_every_part_of_a_release_is_known() -> None:
    known = load_upstream_parts()
    for source in map(source_of, ALL):
        for path in sorted(source.files)[::5]:
            if path.endswith(".py"):
                body = ast.parse(source.read(path)).body
                parts = [node for node in body if not isinstance(node, (ast.Import, ast.ImportFrom))]
                assert {*map(fingerprint_statement, parts)} <= known, path
            elif path.endswith((".yaml", ".sh")):
                assert fingerprint_text(source.read(path)) in known, path


def test_what_upstream_had_is_no_edit(run: Any, tmp_path: Path, fork_0_5_0: Fork) -> None:
    """A module, a file that went, and a config of another release; the project has its own release's."""
    fork, other = fork_0_5_0, source_of(EARLIER)
    for path in (ALGOS, "trainer/config/evaluation.yaml", "utils/metric/__init__.py"):
        fork.write(path, other.read(f"verl/{path}"))
    gone = "verl/trainer/of_another_day.py"
    fork.write(gone.removeprefix("verl/"), other.read("verl/trainer/ppo/metric_utils.py"))
    report = report_of(run, fork, tmp_path / "toy")
    assert report["release"] == RELEASE
    assert set(fates(report).values()) == {"upstream"}
    assert report["carried"]["total"] == 0
    assert {item["path"]: item["is_upstreams"] for item in report["own"]} == {gone: True}
    assert not (tmp_path / "toy/orphaned").exists()
    assert run("new", tmp_path / "new", "--package", "toy", "--verl", RELEASE).code == 0
    plain = (tmp_path / "new/toy" / PROJECTS_ALGOS).read_bytes()
    assert (tmp_path / "toy/toy" / PROJECTS_ALGOS).read_bytes() == plain
    assert "not edits, as upstream had them on another day: " in run("adopt", fork.top).out


def test_an_edit_of_another_day_is_put_into_the_releases_text(run: Any, tmp_path: Path, fork_0_5_0: Fork) -> None:
    """The fork's function is of an older release, with one line of its own: only that line comes along."""
    fork = fork_0_5_0
    fork.write(ALGOS, source_of(EARLIER).read(f"verl/{ALGOS}"))
    name = "compute_value_loss"
    fork.into(ALGOS, name, "token_1 = 1")
    fork.append(ALGOS, "\n\ndef unused_2():\n    return 2\n")
    report = report_of(run, fork, tmp_path / "toy", "--algorithm", "ppo")
    (edit,) = [item for item in report["edits"] if item["symbol"] == name]
    assert edit["outcome"] == "carried"
    assert {key: fate for key, fate in fates(report).items() if fate != "upstream"} == {
        f"verl/{ALGOS}:{name}": "carried",
        f"verl/{ALGOS}:unused_2": "orphaned",
    }
    assert run("new", tmp_path / "new", "--package", "toy", "--verl", RELEASE, "--algorithm", "ppo").code == 0
    before, after = ((tmp_path / place / "toy" / PROJECTS_ALGOS).read_text() for place in ("new", "toy"))
    assert [line for line in after.splitlines() if line not in before.splitlines()] == ["    token_1 = 1"]
    assert len(after.splitlines()) == len(before.splitlines()) + 1


def test_a_copy_older_than_all_projects(run: Any, tmp_path: Path, fork_0_5_0: Fork) -> None:
    """It becomes a project of the oldest supported release, and its edits show against what was copied."""
    old = next(pin for pin in releases.list_older() if pin.release.startswith("0.3"))
    fork = Fork(tmp_path / "older", open_source(old))
    name = "compute_value_loss"
    fork.into(ALGOS, name, "token_1 = 1")
    report = report_of(run, fork, tmp_path / "toy", "--algorithm", "ppo")
    assert (report["release"], report["made_from"]["release"]) == (ALL[0], old.release)
    (edit,) = [item for item in report["edits"] if item["outcome"] != "upstream"]
    assert edit["symbol"] == name
    assert f"made from verl {old.release}, which is too old for a project" in run("adopt", fork.top).out


def test_settings_of_the_forks_own_come_with_the_code_that_reads_them(
    run: Any, tmp_path: Path, fork_0_5_0: Fork
) -> None:
    fork = fork_0_5_0
    line = "token_1 = (config.mine_2, config.mine_9, config.mine_11, config.mine_12) if config else 0; mine_8 = 8"
    fork.into(TRAINER, "compute_advantage", line)
    fork.into(TRAINER, "fit", "token_3 = self.config.algorithm.lost_4")
    own = "  mine_2: 0.25\n  lost_4: 1\n  mine_9: prompts/mine.txt\n"
    own += "  mine_11: ${algorithm.mine_2}\n  mine_12: ${algorithm.lost_4}\n"
    fork.change(CONFIG, "\nalgorithm:\n", f"\nalgorithm:\n{own}")
    project = tmp_path / "toy"
    report_of(run, fork, project)
    body = (project / "config/fork/keys.yaml").read_text()
    assert "  mine_2: 0.25\n" in body
    assert "lost_4" not in body
    assert "mine_11: ${algorithm.mine_2}\n" in body
    assert "mine_12" not in body, "it follows a setting that no code reads"
    assert "  - fork@_global_: keys\n" in (project / "config/ppo_trainer.yaml").read_text()
    assert run("verify", project, "--no-parity").code == 0
    script = fork.top / "run.sh"
    script.write_text(
        "python3 -m verl.trainer.main_ppo algorithm.mine_2=0.5 trainer.mine_7=1 +algorithm.mine_8=2"
        " algorithm.mine_9=prompts/other.txt"
        " actor_rollout_ref.rollout.name=hf actor_rollout_ref.model.path=/m\n"
    )
    put(fork.top, {".git/config": "", "prompts/other.txt": "Do not think.\n"})
    with_run = tmp_path / "with/toy"
    report = report_of(run, fork, with_run, "--from-verl-run", str(script), "--keep-unknown")
    expected = {"mine_2": 0.5, "mine_8": 2, "mine_9": str(fork.top / "prompts/other.txt")}
    assert {key: report["run"]["settings"][f"algorithm.{key}"] for key in expected} == expected
    assert "mine_2: 0.5" in (with_run / "config/recipe/verl_run.yaml").read_text()
    assert "mine_7" in (with_run / "config/unknown.yaml").read_text(), "which no code reads"
