"""`vextract changes`, as it is typed."""

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Result

pytestmark = pytest.mark.usefixtures("verl")

Run = Callable[..., Result]


def test_the_report(run: Run) -> None:
    short = run("changes", "0.5.0", "0.6.1")
    assert len(short.out.splitlines()) < 24
    assert short.out.splitlines()[1:3] == ["may change numbers", "  verl/trainer/ppo/core_algos.py"]
    assert "agg_loss" in short.out
    assert "config of the project\n  + " in short.out
    result = run("changes", "0.5.0", "0.6.1", "-v")
    assert result.code == 0
    out = result.out
    # Functions and methods that compute something else; those that only came, went or were reworded are not there.
    names = {word.rstrip(",") for word in out.partition("\nregistries")[0].split()}
    assert {"agg_loss", "kl_penalty", "collate_fn"} <= names
    assert not {"compute_value_loss", "compute_policy_loss", "compute_policy_loss_gspo", "apply_kl_penalty"} & names
    assert out.startswith("verl 0.5.0 -> 0.6.1: ")
    assert "\n  verl/trainer/ppo/core_algos.py\n" in out
    assert "\n    body       agg_loss\n" in out
    assert "\n  policy losses: +geo_mean +gspo +vanilla\n" in out
    assert (
        "  - actor_rollout_ref.actor.optim.warmup_style  (now actor_rollout_ref.actor.optim.lr_scheduler_type)" in out
    )


def test_names_diff_and_json(run: Run) -> None:
    out = run("changes", "0.5.0", "0.6.1", "agg_loss", "--diff").out
    assert "    --- verl-0.5.0/verl/trainer/ppo/core_algos.py agg_loss\n" in out
    assert "kl_penalty" not in out
    report = json.loads(run("changes", "0.5.0", "0.6.1", "kl_penalty", "--json", "--diff").out)
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
    ],
)
def test_mistakes(run: Run, arguments: list[str], message: str, hint: str) -> None:
    result = run("changes", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert hint in result.err


def test_a_feature_of_one_release_only(run: Run) -> None:
    result = run("changes", "0.5.0", "0.6.1", "--engine", "vllm", "--with", "lora", "--json")
    assert result.code == 0
    found = {item["symbol"]: item["change"] for item in json.loads(result.out)["symbols"]}
    assert found["verl.utils.model:get_lora_rank_from_adapter"] == "new"
