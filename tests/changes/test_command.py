"""`vextract changes`, as it is typed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from extractor.usecases.changes import Changes, report_releases
from tests.cli.conftest import Result

pytestmark = pytest.mark.usefixtures("verl")

Run = Callable[..., Result]
_found: dict[str, Changes] = {}


@pytest.fixture(autouse=True)
def _each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare two releases takes seconds, and equal ones give equal results."""

    def report(*asked: Any, **options: Any) -> Changes:
        key = repr((asked, options))
        if key not in _found:
            _found[key] = report_releases(*asked, **options)
        return _found[key]

    monkeypatch.setattr("extractor.usecases.changes.report_releases", report)


def test_the_report(run: Run) -> None:
    short = run("changes", "0.5.0", "0.6.1").out.splitlines()
    assert short[1:3] == ["may change numbers", "  verl/trainer/ppo/core_algos.py"]
    assert any("agg_loss" in line for line in short)
    assert any(line.startswith("  + ") for line in short[short.index("config of the project") :])
    out = run("changes", "0.5.0", "0.6.1", "-v", code=0).out
    # Functions and methods that compute something else; those that only came, went or were reworded are not there.
    names = {word.rstrip(",") for word in out.partition("\nconfig of the project")[0].split()}
    assert {"agg_loss", "kl_penalty", "collate_fn"} <= names
    assert not {"compute_value_loss", "compute_policy_loss", "compute_policy_loss_gspo", "apply_kl_penalty"} & names
    assert out.startswith("verl 0.5.0 -> 0.6.1: ")
    optim = "actor_rollout_ref.actor.optim"
    assert f"  - {optim}.warmup_style  (now {optim}.lr_scheduler_type)" in out
    out = run("changes", "0.5.0", "0.6.1", "agg_loss", "--diff").out
    assert "    --- verl-0.5.0/verl/trainer/ppo/core_algos.py agg_loss\n" in out
    assert "kl_penalty" not in out
    (item,) = json.loads(run("changes", "0.5.0", "0.6.1", "kl_penalty", "--json").out)
    assert (item["new"]["symbol"], item["change"]) == ("verl.trainer.ppo.core_algos:kl_penalty", "body")


def test_mistakes(run: Run) -> None:
    for arguments, message, hint in (
        (["9.9.9", "0.6.1"], "verl 9.9.9 is not supported", "supported: "),
        (["0.5.0", "0.6.1", "agg_los"], "anything called 'agg_los'", "did you mean `agg_loss`?"),
        (["0.5.0", "0.6.1", "--with", "zoo"], "neither release has a feature 'zoo'", "features: "),
    ):
        result = run("changes", *arguments, code=2)
        assert result.out == ""
        assert message in result.err
        assert hint in result.err
