"""Forks of other days than a release's: what upstream had then is no edit, and edits are found against it."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.python_text.segments import split
from extractor.pipeline.source import open_source
from extractor.values import releases
from extractor.values.fingerprint import fingerprint_statement, fingerprint_text, load_upstream_parts
from tests.importers.adopt.forks import ALGOS, CONFIG, TRAINER, Fork, fates
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
    shown = run("adopt", fork.top).out
    assert "not edits, as upstream had them on another day: " in shown
    assert "as upstream had it on another day:" in shown


def test_what_registers_itself_comes_along_whoever_wrote_it(run: Any, tmp_path: Path, fork_0_5_0: Fork) -> None:
    """A loss of a later release, which a run can choose by its name; the copy stays one of its release."""
    fork = fork_0_5_0
    text = source_of("0.6.1").read(f"verl/{ALGOS}")
    later = {item.key: item.core for item in split(text)}["compute_policy_loss_geo_mean"]
    assert "@register_policy_loss" in later
    fork.append(ALGOS, f"\n\n{later}")
    fork.into(TRAINER, "apply_kl_penalty", "print('token_2')")
    assert fates(report_of(run, fork, tmp_path / "toy")) == {
        f"verl/{ALGOS}:compute_policy_loss_geo_mean": "carried",
        f"verl/{TRAINER}:apply_kl_penalty": "carried",  # it is an edit, and no other day
    }


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


def test_a_hook_stands_for_what_was_changed_for_speed(run: Any, tmp_path: Path, fork_0_5_0: Fork) -> None:
    """The project's GRPO goes by columns; a fork that edits the rows that it went by has its own beside it."""
    fork = fork_0_5_0
    text = fork.read(ALGOS)
    (node,) = [item.node for item in split(text) if item.key == "compute_grpo_outcome_advantage"]
    assert node is not None
    lines = text.split("\n")
    start = next(i for i in range(node.lineno, len(lines)) if "for i in range(bsz)" in lines[i])
    lines[start + 1 : start + 1] = [lines[start + 1][: -len(lines[start + 1].lstrip())] + "token_1 = i"]
    fork.write(ALGOS, "\n".join(lines))
    report = report_of(run, fork, tmp_path / "toy")
    assert fates(report) == {f"verl/{ALGOS}:compute_grpo_outcome_advantage": "carried"}
    assert "token_1 = i" in (tmp_path / "toy/toy/custom/algorithms.py").read_text()


def test_arguments_that_only_a_parked_method_takes(run: Any, tmp_path: Path, fork_0_5_0: Fork) -> None:
    fork = fork_0_5_0
    fork.into("protocol.py", "select", "import ray; token_1 = ray")
    fork.change("protocol.py", "def select(self, ", "def select(self, needed_2=1, ")
    call = 'data.select(batch_keys=["responses"], needed_2=0); data.pop(batch_keys=[])'
    fork.into(TRAINER, "apply_kl_penalty", call)
    report = report_of(run, fork, tmp_path / "toy")
    (edit,) = [item for item in report["edits"] if item["symbol"] == "apply_kl_penalty"]
    assert (edit["outcome"], edit["why"]) == (
        "orphaned",
        "it hands needed_2 to DataProto.select, which does not take it",
    )


def test_settings_of_the_forks_own_come_with_the_code_that_reads_them(
    run: Any, tmp_path: Path, fork_0_5_0: Fork
) -> None:
    fork = fork_0_5_0
    read = ", ".join(f"config.mine_{number}" for number in (2, 9, 11, 12, 13))
    line = f"token_1 = ({read}) if config else 0; mine_8 = 8"
    fork.into(TRAINER, "compute_advantage", line)
    fork.into(TRAINER, "fit", "token_3 = self.config.algorithm.lost_4")
    prompts = "  mine_9: prompts/mine.txt\n"
    prompts += "  mine_11: ${algorithm.mine_2}\n  mine_12: ${algorithm.lost_4}\n  mine_13: ${eval:'1 + 1'}\n"
    new = f"\nalgorithm:\n  mine_2: 0.25\n  lost_4: 1\n  mine_5:\n    mine_6: [1]\n{prompts}"
    fork.change(CONFIG, "\nalgorithm:\n", new)
    project = tmp_path / "toy"
    report_of(run, fork, project)
    body = (project / "config/fork/keys.yaml").read_text()
    assert "  mine_2: 0.25\n" in body
    assert "lost_4" not in body
    assert "mine_6" not in body
    assert "mine_11: ${algorithm.mine_2}\n" in body
    assert "mine_12" not in body, "it follows a setting that no code reads"
    assert "mine_13" not in body
    assert "  - fork@_global_: keys\n" in (project / "config/ppo_trainer.yaml").read_text()
    assert run("verify", project, "--no-parity").code == 0
    script = fork.top / "run.sh"
    script.write_text(
        "python3 -m verl.trainer.main_ppo algorithm.mine_2=0.5 trainer.mine_7=1 +algorithm.mine_8=2"
        " algorithm.mine_9=prompts/other.txt"
        " actor_rollout_ref.rollout.name=hf actor_rollout_ref.model.path=/m\n"
    )
    (fork.top / ".git").mkdir()
    (fork.top / "prompts").mkdir()
    (fork.top / "prompts/other.txt").write_text("Do not think.\n")
    with_run = tmp_path / "with/toy"
    report = report_of(run, fork, with_run, "--from-verl-run", str(script), "--keep-unknown")
    assert report["run"]["settings"]["algorithm.mine_2"] == 0.5
    assert report["run"]["settings"]["algorithm.mine_8"] == 2
    assert report["run"]["settings"]["algorithm.mine_9"] == str(fork.top / "prompts/other.txt")
    assert "mine_2: 0.5" in (with_run / "config/recipe/verl_run.yaml").read_text()
    assert "mine_7" in (with_run / "config/unknown.yaml").read_text(), "which no code reads"


def test_what_a_module_exports_is_the_projects_own(run: Any, tmp_path: Path, fork_0_5_0: Fork) -> None:
    """The names of classes that stay behind would have no place in a list, and conflict with what a release lists."""
    fork = fork_0_5_0
    managers = "workers/reward_manager/__init__.py"
    fork.change(managers, '__all__ = [\n    "', '__all__ = [\n    "MineRewardManager",\n    "')
    report = report_of(run, fork, tmp_path / "toy")
    assert fates(report)[f"verl/{managers}:__all__"] == "orphaned"
    assert "MineRewardManager" not in (tmp_path / f"toy/toy/vendored/{managers}").read_text()
    (lost,) = [item for item in report["edits"] if item["symbol"] == "__all__"]
    assert lost["why"] == "the project's file lists what it has itself"
