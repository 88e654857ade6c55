"""Importance weights of runs from before `algorithm.rollout_correction`."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.importers.runs.importance import CAP, NOW, THRESHOLD, with_corrections_names
from extractor.importers.runs.reading import read_run
from extractor.importers.runs.renaming import flat_settings
from tests.importers.conftest import vextract

BEFORE = "algorithm.rollout_is"
LAUNCH = "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b algorithm.adv_estimator=grpo"


def settings(folder: Path, words: str, config: str | None = None) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """What is said of importance afterwards, and the remarks."""
    if config is not None:
        (folder / "verl/trainer/config").mkdir(parents=True)
        (folder / "verl/trainer/config/ppo_trainer.yaml").write_text(config)
        (folder / "verl/trainer/main_ppo.py").write_text("")
    (folder / "run.sh").write_text(f"{LAUNCH} {words}\n")
    run = with_corrections_names(read_run(folder / "run.sh", {}, {}, started_in=folder))
    kept = {
        key: value for key, value in flat_settings(run).items() if key == CAP or "rollout_" in key.rpartition(".")[2]
    }
    return {key.removeprefix(f"{NOW}."): value for key, value in kept.items()}, [
        (item.key, item.what) for item in run.remarks
    ]


def renamed(*names: str) -> list[tuple[str, str]]:
    """The remarks on settings that go with the threshold, and on that."""
    return [*((f"{BEFORE}{name}", "renamed") for name in names), (THRESHOLD, "changed")]


@pytest.mark.parametrize(
    ("words", "found", "told"),
    [
        (f"+{CAP}=2", {"rollout_is": "token", "rollout_is_threshold": 2}, [(CAP, "changed")]),
        (f"{CAP}=-1", {}, [(CAP, "dropped")]),
        ("actor_rollout_ref.rollout.n=4", {}, []),
        (
            f"{THRESHOLD}=2.0 {BEFORE}=true {BEFORE}_level=sequence {BEFORE}_mode=truncate"
            f" {BEFORE}_veto_threshold=1e-4",
            {"rollout_is": "sequence", "rollout_is_threshold": 2.0, "rollout_token_veto_threshold": 1e-4},
            renamed("", "_level", "_mode", "_veto_threshold"),
        ),
        (
            f"{THRESHOLD}=2.0 {BEFORE}=true {BEFORE}_mode=mask {BEFORE}_threshold_lower=0.4",
            {
                "rollout_is": "token",
                "rollout_is_threshold": 2.0,
                "rollout_rs": "token",
                "rollout_rs_threshold": 2.0,
                "rollout_rs_threshold_lower": 0.4,
            },
            renamed("", "_mode", "_threshold_lower"),
        ),
        (f"{THRESHOLD}=2.0 {BEFORE}=false", {}, [(BEFORE, "dropped"), (THRESHOLD, "dropped")]),
        (f"{THRESHOLD}=null {BEFORE}=true", {}, [(BEFORE, "dropped"), (THRESHOLD, "dropped")]),
        (  # no release since has such weights
            f"{THRESHOLD}=2.0 {BEFORE}=true {BEFORE}_level=geometric",
            {THRESHOLD: 2.0, BEFORE: True, f"{BEFORE}_level": "geometric"},
            [],
        ),
    ],
)
def test_what_later_releases_call_it(
    tmp_path: Path, words: str, found: dict[str, object], told: list[tuple[str, str]]
) -> None:
    assert settings(tmp_path, words) == (found, told)


@pytest.mark.parametrize(("cap", "told"), [(3.0, [(CAP, "changed")]), (-1, [])])
def test_what_only_the_config_of_the_checkout_says(tmp_path: Path, cap: float, told: list[tuple[str, str]]) -> None:
    found = {"rollout_is": "token", "rollout_is_threshold": cap} if told else {}
    assert settings(tmp_path, "", f"actor_rollout_ref: {{actor: {{tis_imp_ratio_cap: {cap}}}}}") == (found, told)


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("form", ["script", "resolved"])
def test_a_project_of_such_a_run_weighs_so(tmp_path: Path, form: str) -> None:
    file = tmp_path / ("run.sh" if form == "script" else "run.yaml")
    file.write_text(
        f"{LAUNCH} +{CAP}=3 actor_rollout_ref.rollout.calculate_log_probs=true\n"
        if form == "script"
        else "actor_rollout_ref:\n  model: {path: a/b}\n  actor: {tis_imp_ratio_cap: 3}\n"
        "  rollout: {name: vllm, calculate_log_probs: true}\nalgorithm: {adv_estimator: grpo}\n"
    )
    done = vextract("new", tmp_path / "mine", "--from-verl-run", file, "--offline")
    assert done.code == 0, done.err
    assert "rollout_is_threshold: 3\n" in (tmp_path / "mine/config/recipe/verl_run.yaml").read_text()
    assert "rollout_is: token\n" in (tmp_path / "mine/config/rollout_correction/rollout_corr.yaml").read_text()
    assert f"| `{CAP}` | `3` | the same weights" in (tmp_path / "mine/from_run.md").read_text()
