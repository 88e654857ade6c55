"""Prompts with images: what a project learns from them, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.images import pictures
from tests.images.conftest import HERE, Run
from tests.project.running import metrics_of
from tests.releases import NEWEST, source_of

pytestmark = pytest.mark.slow

Place = Callable[..., Path]
FEW = (
    *("data.train_batch_size=4", "actor_rollout_ref.actor.ppo_mini_batch_size=4", "actor_rollout_ref.rollout.n=4"),
    *("data.shuffle=false", "actor_rollout_ref.actor.use_kl_loss=true", "local.recompute_old_log_probs=true"),
    *("actor_rollout_ref.actor.entropy_coeff=0", "data.max_response_length=3", "trainer.total_training_steps=1"),
)
PACKED = (
    "actor_rollout_ref.model.use_remove_padding=true",
    *(f"actor_rollout_ref.{part}=true" for part in ("actor.use_dynamic_bsz", "rollout.log_prob_use_dynamic_bsz")),
)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Qwen2_5_VL", ()),
        pytest.param("Qwen3VL", PACKED, marks=pytest.mark.thorough, id="Qwen3VL packed"),
    ],
)
def test_a_step_is_upstreams_and_what_plain_transformers_computes(
    run: Run, project: Place, tmp_path: Path, kind: str, settings: list[str]
) -> None:
    """Rows with one image, two and none; images as PIL and bytes. Others are refused before a model is loaded."""
    for name in ("experimental/agent_loop/agent_loop.py", "utils/model.py", "utils/tokenizer/tokenizer.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(source_of(NEWEST[-1]).files[f"verl/{name}"])
    root = project(NEWEST[-1])
    done = run(root, HERE / "driver.py", "compare", tmp_path / kind, tmp_path / "run", tmp_path, *FEW, *settings)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["as_upstream"] == [True] * 4
    assert found["log_probs"] < 1e-5
    assert found["gradient"][0] == pytest.approx(found["gradient"][1], rel=1e-3)
    assert found["gradient"][0] > 0.01
    assert len(set(found["lengths"])) > 2
    assert [expected for expected, said in found["refused"] if expected not in said.splitlines()[0]] == []


@pytest.mark.thorough
def test_the_colour_of_a_square_is_learnt(run: Run, model: Place, project: Place, tmp_path: Path) -> None:
    # Without a bonus for entropy it soon names two of the colours only.
    settings = ("trainer.total_training_steps=80", "trainer.test_freq=40", "actor_rollout_ref.actor.entropy_coeff=0.15")
    done = run(project(NEWEST[-1]), HERE / "driver.py", "learn", model("Qwen2_5_VL"), tmp_path / "run", "", *settings)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = metrics_of(tmp_path / "run")
    scores = [row[name] for row in rows for name in row if name.startswith("val-core/") and "mean@1" in name]
    assert scores[0] < 0.3
    assert scores[-1] >= 0.85  # on pictures that were held out


@pytest.mark.thorough
@pytest.mark.vllm
def test_vllm_reads_images_as_the_trainer_does(run: Run, model: Place, project: Place, tmp_path: Path) -> None:
    """After each update: what was seen before must not be taken from a cache."""
    pytest.importorskip("vllm")
    rollout = "actor_rollout_ref.rollout"
    settings = (f"{rollout}.calculate_log_probs=true", f"+{rollout}.engine_kwargs.vllm.logprobs_mode=raw_logprobs")
    root, steps = project(NEWEST[-1], "vllm"), "trainer.total_training_steps=3"
    done = run(
        root, HERE / "driver.py", "learn", model("Qwen2_5_VL"), tmp_path / "run", "", *settings, *FEW[:-1], steps
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = metrics_of(tmp_path / "run")
    found = [row[name] for row in rows for name in row if name.endswith("rollout_log_probs_diff_max")]
    assert len(found) == 3
    assert max(found) < 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("release", ["0.7.1", NEWEST[-1]])
def test_a_run_of_files_is_saved_with_its_processor_and_goes_on(
    run: Run, model: Place, project: Place, tmp_path: Path, release: str
) -> None:
    root = project(release)
    settings = _train_on_files(run, model("Qwen2_5_VL"), root, tmp_path)
    saved = tmp_path / "run/global_step_1"
    names = {file.name for file in (saved / "actor").iterdir()}
    assert {"processor_config.json", "tokenizer.json", "chat_template.jinja"} <= names
    resumed = run(root, "main.py", *settings, "trainer.total_training_steps=2", "trainer.resume_mode=auto")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert "step 2/2" in resumed.stdout
    exported = run(root, "-m", "toy.export", tmp_path / "run", tmp_path / "out")
    assert exported.returncode == 0, exported.stderr[-3000:]
    assert (tmp_path / "out/processor_config.json").is_file()
    again = run(
        root, "main.py", *settings, f"actor_rollout_ref.model.path={tmp_path / 'out'}", "trainer.resume_mode=disable"
    )
    assert again.returncode == 0, again.stderr[-3000:]


def _train_on_files(run: Run, model: Path, root: Path, folder: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(map(pictures.stored, pictures.rows(3, 4)))), folder / "rows.parquet")
    files = [f"data.{split}_files={folder / 'rows.parquet'}" for split in ("train", "val")]
    score = [
        f"reward.custom_reward_function.path={HERE / 'pictures.py'}",
        "reward.custom_reward_function.name=is_right",
    ]
    sizes = ["scale=toy", "data.max_prompt_length=64", *FEW, f"trainer.default_local_dir={folder / 'run'}"]
    settings = [f"actor_rollout_ref.model.path={model}", *files, *score, *sizes]
    done = run(root, "main.py", *settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return settings
