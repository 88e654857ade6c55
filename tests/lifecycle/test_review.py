"""What a reviewer of an upgrade reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.cli.app import run as command
from tests.lifecycle.releases import Choice, generated, options_of
from tests.lifecycle.worlds import create

METRICS = "toy/vendored/algorithms/metric_utils.py"
OWN = """

@register_policy_loss("mine")
def mine(log_prob, **others):
    return agg_loss(log_prob, others["response_mask"]), 0, 0, 0
"""


@pytest.mark.slow
def test_a_reviewer_reads_what_touches_the_owners_work(
    verl: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = Choice("0.6.1")
    root = create(tmp_path / "toy", generated(choice).tree, options_of(choice))
    text = (root / METRICS).read_text(encoding="utf-8")
    (root / METRICS).write_text(text.replace("    metrics = {\n", '    metrics = {\n        "mine": 1,\n'))
    with (root / "toy/custom/algorithms.py").open("a", encoding="utf-8") as hooks:
        hooks.write(OWN)
    (root / "toy/vendored/workers/dp_actor.py").write_bytes(b"MINE = 1\n")
    assert command(["outdated", str(root), "--to", "0.8.0"]) == 1
    shown = capsys.readouterr().out
    page = tmp_path / "upgrade.md"
    assert command(["upgrade", str(root), "--to", "0.8.0", "--pr", str(page)]) == 0
    for said in (shown, page.read_text(encoding="utf-8")):
        assert said.startswith("# verl 0.6.1 -> verl 0.8.0\n")
        assert "| upstream: body | `vendored/algorithms/metric_utils.py: compute_data_metrics` | you edited it" in said
        assert "| upstream: signature | `vendored/algorithms/core_algos.py: agg_loss` | you import it" in said
        assert "| to change | `toy/custom/algorithms.py:" in said
        assert f"| edit carried | `{METRICS}`" in said
        assert "| edit parked | `toy/vendored/workers/dp_actor.py`" in said
        assert "`vextract upgrade --to 0.6.1`" in said
    assert "imports ok; ray ok; base ok" in page.read_text(encoding="utf-8")
    assert command(["outdated", str(root), "--to", "0.8.0"]) == 0
    assert capsys.readouterr().out.endswith("up to date\n")
