"""A checkout on its way to the next release, in which functions have moved and a dataclass has lost a field."""

import ast
from pathlib import Path

import pytest

from extractor.pipeline.source import Source
from extractor.values.configtree.compose import read_mapping

MOVED = ("compute_advantage", "apply_kl_penalty", "compute_response_mask")
FIELD = "use_no_sync_for_gradient_accumulation"


@pytest.fixture(params=[len(MOVED), pytest.param(2, marks=pytest.mark.thorough)], ids=["the file is gone", "two moved"])
def checkout(request: pytest.FixtureRequest, newest_verl: Source, tmp_path: Path) -> Path:
    """All moved, and their file is gone; or some, which their file imports since it uses them."""
    root, moved = tmp_path / "checkout", MOVED[: request.param]
    for path, data in newest_verl.files.items():
        if path.startswith("verl/"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
    (root / "LICENSE").write_text("A licence.\n")
    (root / "verl/version/version").write_text("0.10.0.dev\n")
    engine = root / "verl/workers/config/engine.py"
    engine.write_text(engine.read_text().replace(f"    {FIELD}: bool = True\n", ""))
    trainer = root / "verl/trainer/ppo/ray_trainer.py"
    body = ast.parse(trainer.read_text()).body
    lines = trainer.read_text().splitlines(keepends=True)
    parts = {"imports": "", "moved": ""}
    for node in reversed(body):
        text = "".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            parts["imports"] = text + parts["imports"]
        elif isinstance(node, ast.FunctionDef) and node.name in moved:
            parts["moved"] = f"\n\n{text}{parts['moved']}"
            del lines[node.lineno - 1 : node.end_lineno]
    if moved == MOVED:
        trainer.unlink()
    else:
        trainer.write_text(f"from verl.trainer.ppo.advantage import {', '.join(moved)}\n{''.join(lines)}")
    (trainer.parent / "advantage.py").write_text("".join(parts.values()))
    return root


@pytest.mark.thorough
def test_the_next_release_can_be_drafted_and_tried(run, drafting, checkout: Path, tmp_path: Path) -> None:
    is_gone = not (checkout / "verl/trainer/ppo/ray_trainer.py").exists()
    drafted = drafting("0.10.0", "--from", checkout)
    assert drafted.code == 0, drafted.err
    assert "says that it is verl 0.10.0.dev" in drafted.err
    if is_gone:
        assert all(f'"verl.trainer.ppo.advantage:{name}"' in drafted.out for name in MOVED)
        assert '"trainer/ppo/advantage.py" = "vendored/algorithms/trainer_functions.py"' in drafted.out
    assert f"config/engine/fsdp.yaml sets actor_rollout_ref.actor.fsdp_config.{FIELD}" in drafted.err
    made = run("new", tmp_path / "toy", "--verl", "0.10.0", "--from", checkout, "--experimental")
    assert made.code == 0, made.err
    assert f"fsdp_config.{FIELD}, and upstream's FSDPEngineConfig has no such field any more: it was taken" in made.err
    assert FIELD not in (read_mapping((tmp_path / "toy/config/engine/fsdp.yaml").read_text()) or {})
    functions = (tmp_path / "toy/toy/vendored/algorithms/trainer_functions.py").read_text()
    assert all(name in functions for name in MOVED)
    run("status", tmp_path / "toy", "--check", code=0)


def test_another_version_is_still_refused(drafting, checkout: Path) -> None:
    refused = drafting("0.11.0", "--from", checkout)
    assert refused.code == 3
    assert "verl 0.10.0.dev, not 0.11.0" in refused.err
