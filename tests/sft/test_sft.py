"""Supervised training: its loss against transformers' and by hand, in passes and ranks; and what is done with it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.processes.launching import TORCHRUN
from tests.project.running import check_forked
from tests.project.support import Configuration, Maker, vextract
from tests.releases import NEWEST

DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="module")
def project(made: Maker) -> Path:
    features = ("dynamic_bsz", "lora")
    return made(Configuration(NEWEST[-1], recipe="sft", features=features, package="warm")).root


@pytest.fixture(scope="module")
def found(project: Path) -> dict[str, Any]:
    return dict(json.loads(_driven(project).splitlines()[-1]))


def _driven(project: Path, *launcher: str) -> str:
    done = check_forked(project, *launcher, str(DRIVER), str(project / "runs"), PYTHONPATH=str(project))
    return done.stdout


def test_the_loss_is_the_mean_over_the_tokens_to_learn_whatever_the_passes(found: dict[str, Any]) -> None:
    for kind in ("single", "chats"):
        case = found[kind]
        for other in ("by hand", "transformers", "validation"):
            assert case["loss"] == pytest.approx(case[other], abs=1e-6), (kind, other)
        assert case["largest"] > 0.01
        assert case["gradient"] < 1e-6
        for size in (1, 2):
            loss, distance = case[f"passes of {size}"]
            assert loss == pytest.approx(case["loss"], abs=1e-6), (kind, size)
            assert distance < 1e-6, (kind, size)


def test_a_run_that_is_resumed_gives_the_same_weights_bit_for_bit(found: dict[str, Any]) -> None:
    assert found["whole"] != found["resumed"]
    one, other = (load_file(Path(found[name]) / "actor/model.safetensors") for name in ("whole", "resumed"))
    assert all(bool((one[name] == other[name]).all()) for name in one)


def test_what_it_gives_is_trained_further(found: dict[str, Any]) -> None:
    """By an adapter, and by rewards."""
    first, last, checkpoint = found["adapter"]
    assert last < 0.9 * first
    assert (Path(checkpoint) / "actor/adapter_config.json").is_file()
    assert found["rewards"]


@pytest.mark.thorough
def test_two_processes_give_the_weights_of_one(project: Path, found: dict[str, Any]) -> None:
    _driven(project, *TORCHRUN, "--nproc-per-node", "2")
    (other,) = (project / "runs/ranks").glob("global_step_4")
    one, two = (load_file(path / "actor/model.safetensors") for path in (Path(found["whole"]), other))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6
    lines = (project / "runs/ranks/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    shares = [json.loads(line) for line in lines if "train/loss" in line]
    assert len(shares) == 4
    assert all(row["global_seqlen/balanced_max"] <= row["global_seqlen/max"] for row in shares)


def test_rows_that_cannot_be_learned_are_named_before_anything_is_trained(found: dict[str, Any]) -> None:
    long, other = found["refused"]
    assert "long.jsonl, row 0: it has" in long
    assert "data.truncation=right" in long
    assert "other.jsonl: rows have neither a column 'messages', nor 'prompt' and 'response'" in other


def test_a_release_without_it_says_which_have_it(tmp_path: Path, verl: None) -> None:
    done = vextract("new", "p", "--recipe", "sft", "--verl", "0.6.1", "--offline", cwd=tmp_path)
    assert done.returncode == 2
    assert "recipe sft needs feature 'sft'" in done.stderr
    assert "hint: `--verl 0.9.1`" in done.stderr
    assert not os.listdir(tmp_path)
