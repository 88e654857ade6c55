"""The benchmark for a GPU, with a tiny model on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.thorough
@pytest.mark.slow
def test_it_measures_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from benchmarks import gpu
    from benchmarks.training import make_project

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    shape = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 300,
    }
    size = gpu.Size(shape, prompts=4, generations=4, length=16, micro_batch=8)
    gpu.report(make_project(tmp_path / "measured", package="measured", features=("mfu",)), size)
    printed = capsys.readouterr().out
    assert "16 responses of 1" in printed
    speeds = [line.split("|")[2].strip() for line in printed.splitlines() if line.startswith("| tokens")]
    assert all(float(speed.removesuffix("/s").replace(",", "")) > 0 for speed in speeds)
    assert len(speeds) == 2
