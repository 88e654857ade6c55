"""An adapter that vLLM computes beside the model: what it writes is what the policy says, after each hand-over."""

import json
from pathlib import Path

import pytest

from tests.project.running import check_python
from tests.project.support import Configuration, make
from tests.releases import LAST_WITH_ENGINES_IN_PROCESS, NEWEST

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
DRIVER = Path(__file__).with_name("adapter_driver.py")
SERVER = "actor_rollout_ref.rollout.mode=async"
MERGED = "actor_rollout_ref.model.lora.merge=true"


@pytest.mark.parametrize(
    ("release", "overrides"),
    [
        (NEWEST[-1], ()),
        (NEWEST[-1], (MERGED,)),
        (NEWEST[-1], (MERGED, "local.quantization.load_in_4bit=true")),
        (NEWEST[-1], (SERVER,)),
        (NEWEST[-1], (SERVER, MERGED)),
        (LAST_WITH_ENGINES_IN_PROCESS, ()),
    ],
)
@pytest.mark.thorough
def test_vllm_writes_with_the_adapter(verl: None, tmp_path: Path, release: str, overrides: tuple[str, ...]) -> None:
    pytest.importorskip("vllm")
    configuration = Configuration(release, "vllm", features=("episodes", "lora", "qlora"), package="adapted")
    root = make(configuration, tmp_path / "project").root
    done = check_python(root, "-c", DRIVER.read_text(encoding="utf-8"), str(tmp_path / "work"), *overrides)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == 3
    assert max(row["off"] for row in rows) < 1e-4
    assert sum(row["others"] for row in rows) == 0
    assert all(row["changed"] for row in rows)
