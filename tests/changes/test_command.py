"""`vextract changes`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from extractor.cli.app import run


@pytest.fixture(scope="module")
def _made() -> dict[object, object]:
    return {}


@pytest.fixture(autouse=True)
def _generate_once(monkeypatch: pytest.MonkeyPatch, _made: dict[object, object]) -> None:
    from extractor import generate

    real = generate.generate

    def remembered(options, source, manifest):
        if options not in _made:
            _made[options] = real(options, source, manifest)
        return _made[options]

    monkeypatch.setattr(generate, "generate", remembered)


def test_the_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("trainer:\n  profile_steps: [1]\n")
    assert run(["changes", "0.5.0", "0.6.1", "--config", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("verl 0.5.0 -> 0.6.1: ")
    assert "\nverl/trainer/ppo/core_algos.py\n" in out
    assert "\n  body       agg_loss\n" in out
    assert "\n  policy losses: +geo_mean +gspo +vanilla\n" in out
    assert (
        "  - actor_rollout_ref.actor.optim.warmup_style  (now actor_rollout_ref.actor.optim.lr_scheduler_type)" in out
    )
    assert "config/mine.yaml:2: trainer.profile_steps no longer exists; now global_profiler.steps" in out


def test_names_and_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["changes", "0.5.0", "0.6.1", "agg_loss", "--diff"]) == 0
    out = capsys.readouterr().out
    assert "    --- verl-0.5.0/verl/trainer/ppo/core_algos.py agg_loss\n" in out
    assert "kl_penalty" not in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["changes", "0.5.0", "0.6.1", "kl_penalty", "--json", "--diff"]) == 0
    report = json.loads(capsys.readouterr().out)
    (item,) = report["symbols"]
    assert (item["symbol"], item["change"]) == ("verl.trainer.ppo.core_algos:kl_penalty", "body")
    assert item["diff"].startswith("--- ")
    assert set(report["counts"]) == {"unchanged", "wording", "body", "signature", "gone", "new"}


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["9.9.9", "0.6.1"], "verl 9.9.9 is not supported", "supported: "),
        (["0.5.0", "0.6.1", "agg_los"], "anything called 'agg_los'", "did you mean `agg_loss`?"),
        (["0.5.0", "0.6.1", "--with", "zoo"], "neither release has a feature 'zoo'", "features: "),
        (["0.5.0", "0.6.1", "--config", "nowhere"], "nowhere: no such directory", "directory of YAML files"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, hint: str) -> None:
    assert run(["changes", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert hint in captured.err


def test_a_feature_of_one_release_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["changes", "0.5.0", "0.6.1", "--engine", "vllm", "--with", "lora", "--json"]) == 0
    found = {item["symbol"]: item["change"] for item in json.loads(capsys.readouterr().out)["symbols"]}
    assert found["verl.utils.model:get_lora_rank_from_adapter"] == "new"
