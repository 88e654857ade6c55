"""Projects of engine vllm, with the real vLLM in the trainer's own process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes.launching import TORCHRUN
from tests.project.running import check_forked, check_python, metrics_of, overrides
from tests.project.support import Configuration, Maker, make
from tests.project.test_rollouts import DRIVER, check
from tests.releases import LAST_WITH_ENGINES_IN_PROCESS, NEWEST, OF_BOTH_KINDS, newest_release

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

# Our code of the engine differs between these; all others share it, and the project's own tests run with each.
VARIANTS = ["0.5.0", LAST_WITH_ENGINES_IN_PROCESS, NEWEST[-1]]
Projects = Callable[[str], Path]  # of a release


@pytest.fixture(scope="module")
def projects(made: Maker) -> Projects:
    """A project of each release, shared by all tests."""
    pytest.importorskip("vllm")
    features = ("episodes", "parts", "reward_logs", "watch")
    return lambda release: made(Configuration(release, "vllm", features=features)).root


@pytest.mark.parametrize(
    ("release", "models", "count"),
    [
        (NEWEST[-1], "untied", 5),
        *(pytest.param(one.values[0], "tied", 10, marks=pytest.mark.thorough) for one in newest_release(engine="vllm")),
    ],
)
def test_the_engine_agrees_with_transformers_after_every_update(
    projects: Projects, release: str, models: str, count: int
) -> None:
    """The project's own tests of its rollout: greedy tokens and log-probabilities, tied and untied, and failures."""
    done = check_python(projects(release), "-m", "pytest", "-x", "tests/test_rollout.py", "-k", models)
    assert f"{count} passed" in done.stdout


@pytest.mark.parametrize("release", VARIANTS)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.thorough
def test_rollouts_are_what_the_config_says(projects: Projects, tmp_path: Path, release: str, mode: str) -> None:
    done = check_python(projects(release), "-c", DRIVER, str(tmp_path), f"actor_rollout_ref.rollout.mode={mode}")
    check(json.loads(done.stdout.splitlines()[-1]), done.stderr)


@pytest.mark.parametrize("release", OF_BOTH_KINDS)
@pytest.mark.thorough
def test_processes_that_hold_one_model_write_the_responses_of_all_of_them(
    projects: Projects, tmp_path: Path, release: str
) -> None:
    """Every update reaches each part of the model; responses are those that one process draws, and a resumed run."""
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    alone = Path(shutil.copytree(root, tmp_path / "alone"))
    together = ("actor_rollout_ref.rollout.tensor_model_parallel_size=2", "data.shuffle=false", "trainer.save_freq=1")
    samples = _trained_by(2, root, *together)
    assert samples == _trained_by(1, alone, "data.shuffle=false")
    shutil.rmtree(*root.glob("checkpoints/*/*/global_step_2"))
    assert _trained_by(2, root, *together) == samples


def _trained_by(processes: int, root: Path, *settings: str) -> list[str]:
    """Train in several processes, check that vLLM has the policy's weights; the responses of the last step."""
    samples = root / "samples"
    given = overrides(
        f"trainer.rollout_data_dir={samples}", "actor_rollout_ref.rollout.calculate_log_probs=true", *settings
    )
    check_python(root, *TORCHRUN, f"--nproc-per-node={processes}", "main.py", *given)
    (run,) = root.glob("checkpoints/*/*")
    rows = metrics_of(run)
    assert len(rows) >= 2
    assert max(row["training/rollout_probs_diff_max"] for row in rows) < 1e-4
    lines = (samples / f"{len(rows)}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["output"] for line in lines]


@pytest.mark.parametrize("release", OF_BOTH_KINDS)
def test_without_vllm_or_its_model_the_project_says_what_to_do(
    projects: Projects, tmp_path: Path, release: str
) -> None:
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    hidden = "import sys; sys.modules['vllm'] = None; from main import main; sys.exit(main(sys.argv[1:]))"
    done = check_forked(root, "-c", hidden, *overrides(), code=2)
    assert done.stderr.splitlines()[-2].startswith("error: vLLM cannot be imported")
    assert done.stderr.splitlines()[-1].startswith("hint: ")
    assert "Traceback" not in done.stderr
    done = check_forked(root, "main.py", f"actor_rollout_ref.model.path={tmp_path / 'nothing'}", code=2)
    assert "hint: check actor_rollout_ref.model.path" in done.stderr
    assert "Traceback" not in done.stderr


# Of a quantized model only the merge is possible, by which vLLM gets whole weights.
ADAPTERS = (
    (),
    ("actor_rollout_ref.model.lora.merge=true",),
    ("actor_rollout_ref.model.lora.merge=true", "local.quantization.load_in_4bit=true"),
    ("actor_rollout_ref.rollout.mode=async",),
)


@pytest.mark.parametrize("settings", ADAPTERS)
@pytest.mark.thorough
def test_vllm_writes_with_the_adapter(verl: None, tmp_path: Path, settings: tuple[str, ...]) -> None:
    """What it says of its tokens is what the policy says, after updates that change the adapter much."""
    pytest.importorskip("vllm")
    configuration = Configuration(NEWEST[-1], "vllm", features=("lora", "qlora", "reward_logs", "watch"))
    root = make(configuration, tmp_path / "project").root
    more = ("actor_rollout_ref.model.lora_rank=8", "actor_rollout_ref.actor.optim.lr=0.05")
    _trained_by(1, root, *more, *settings, "trainer.total_training_steps=3")
