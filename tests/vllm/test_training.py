"""Projects of engine vllm, with the real vLLM in the trainer's own process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes.launching import TORCHRUN
from tests.project.running import check_forked, check_python, metrics_of, overrides, python, train
from tests.project.support import Configuration, Maker, make
from tests.project.test_rollouts import DRIVER, check
from tests.releases import LAST_WITH_ENGINES_IN_PROCESS, NEWEST, OF_BOTH_KINDS, newest_release

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

# Our code of the engine differs between these; all others share it, and the project's own tests run with each.
VARIANTS = ["0.5.0", LAST_WITH_ENGINES_IN_PROCESS, NEWEST[-1]]
Projects = Callable[[str], Path]  # of a release
# All responses of a step are to the same prompt, so that only chance tells them apart.
ONE_PROMPT = (
    "data.shuffle=false",
    "data.train_batch_size=1",
    "actor_rollout_ref.rollout.n=32",
    "actor_rollout_ref.actor.ppo_mini_batch_size=1",
)


@pytest.fixture(scope="module")
def projects(made: Maker) -> Projects:
    """A project of each release, shared by all tests."""
    pytest.importorskip("vllm")
    features = ("episodes", "parts", "reward_logs", "watch")
    return lambda release: made(Configuration(release, "vllm", features=features)).root


def metrics(root: Path) -> list[dict[str, Any]]:
    (run,) = root.glob("checkpoints/*/*")
    return metrics_of(run)


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


@pytest.mark.thorough
@pytest.mark.parametrize("release", [NEWEST[-1], LAST_WITH_ENGINES_IN_PROCESS])
def test_processes_draw_different_samples(projects: Projects, tmp_path: Path, release: str) -> None:
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    first, second = _parts(_trained_by(2, root, *ONE_PROMPT), 2)
    assert first != second


@pytest.mark.parametrize("release", OF_BOTH_KINDS)
@pytest.mark.thorough
def test_processes_that_hold_one_model_write_the_responses_of_all_of_them(
    projects: Projects, tmp_path: Path, release: str
) -> None:
    """Every update reaches each part of the model; the responses are those that one process draws."""
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    alone = Path(shutil.copytree(root, tmp_path / "alone"))
    together = "actor_rollout_ref.rollout.tensor_model_parallel_size=2"
    samples = _trained_by(2, root, together, "data.shuffle=false")
    assert samples == _trained_by(1, alone, "data.shuffle=false")


@pytest.mark.thorough
@pytest.mark.parametrize("release", [NEWEST[-1], LAST_WITH_ENGINES_IN_PROCESS])
def test_two_models_that_two_processes_each_hold_draw_different_samples(
    projects: Projects, tmp_path: Path, release: str
) -> None:
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    together = "actor_rollout_ref.rollout.tensor_model_parallel_size=2"
    samples = _trained_by(4, root, together, *ONE_PROMPT, "trainer.save_freq=1")
    first, second = _parts(samples, 2)
    assert first != second
    shutil.rmtree(*root.glob("checkpoints/*/*/global_step_2"))
    assert _trained_by(4, root, together, *ONE_PROMPT) == samples, "a resumed run draws what the other drew"


def _trained_by(processes: int, root: Path, *settings: str) -> list[str]:
    """Train in several processes, check that vLLM has the policy's weights; the responses of the last step."""
    samples = root / "samples"
    given = overrides(
        f"trainer.rollout_data_dir={samples}", "actor_rollout_ref.rollout.calculate_log_probs=true", *settings
    )
    check_python(root, *TORCHRUN, f"--nproc-per-node={processes}", "main.py", *given)
    rows = metrics(root)
    assert [row["step"] for row in rows] == [1, 2]
    assert max(row["training/rollout_probs_diff_max"] for row in rows) < 1e-4
    lines = (samples / "2.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["output"] for line in lines]


def _parts(samples: list[str], number: int) -> list[list[str]]:
    size = len(samples) // number
    return [samples[start : start + size] for start in range(0, len(samples), size)]


@pytest.mark.thorough
@pytest.mark.parametrize("release", [NEWEST[-1], LAST_WITH_ENGINES_IN_PROCESS])
def test_a_resumed_run_is_the_run_that_was_not_interrupted(projects: Projects, tmp_path: Path, release: str) -> None:
    """vLLM draws from the random numbers of its process, which a checkpoint holds."""
    rows = []
    for lengths in ((2,), (1, 2)):
        root = Path(shutil.copytree(projects(release), tmp_path / str(len(lengths))))
        for steps in lengths:
            found = train(root, f"trainer.total_training_steps={steps}", "trainer.save_freq=1", start=python)
        rows.append(found)
        for row in rows[-1]:
            for name in [name for name in row if name == "time" or name.startswith(("timing", "perf/"))]:
                del row[name]
    assert len(rows[0]) == 2
    assert rows[0] == rows[1]


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


ADAPTERS = Path(__file__).with_name("adapter_driver.py")
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
    done = check_python(root, "-c", ADAPTERS.read_text(encoding="utf-8"), str(tmp_path / "work"), *overrides)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == 3
    assert max(row["off"] for row in rows) < 1e-4
    assert sum(row["others"] for row in rows) == 0
    assert all(row["changed"] for row in rows)


TEAM = Path(__file__).with_name("team_driver.py")


@pytest.mark.thorough
def test_processes_may_ask_more_or_less_often_and_draw_with_the_numbers_of_the_first(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    root = make(Configuration(NEWEST[-1], "vllm"), tmp_path / "project").root
    check_python(root, str(TEAM), "toy", str(tmp_path))
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first["calls"] == second["calls"] == [["a", "b", "e", "f", "g"], ["c"], ["d"]]
    asked = [[(prompt, sampling) for prompt, sampling, _ in answer] for answer in first["answers"] + second["answers"]]
    own, other = "sampling of 0", "sampling of 1"
    assert asked == [[("a", own), ("b", own)], [("c", own)], [("d", own)], [("e", other), ("f", other), ("g", other)]]
    numbers = [number for answer in first["answers"] + second["answers"] for _, _, number in answer]
    assert len(set(numbers)) == len(numbers)
    assert first["moved"]
    assert not second["moved"], "its own numbers are for what it alone draws"
