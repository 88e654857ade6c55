"""Rollouts are sampled as the config says, and the watch over engine and trainer says where they are not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import SMALL, check_forked, forked
from tests.project.support import TOGETHER, Configuration, Maker
from tests.releases import newest_release

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("sampling_driver.py").read_text(encoding="utf-8")
NOTE = (
    "note: ignored from generation_config: forced_eos_token_id=5, max_new_tokens=1, min_p=0.3, no_repeat_ngram_size=1, "
    "repetition_penalty=1.5, suppress_tokens=[9, 10, 11], temperature=0.3, top_k=2, top_p=0.5;"
)


def check(found: dict[str, Any], errors: str) -> None:
    """What the driver has found is right."""
    for name in ("neutral", "asked", "validation"):
        assert found[name] < 1e-4
        assert found[f"{name} not masked"] == 0
        assert found[f"{name} ended by"] == sorted(found["ends"])
    assert found["greedy"]
    if "turns go on" in found:  # an engine that writes turns of episodes
        assert found["turns go on"] == 0
        assert found["turns ended by"] == sorted(found["ends"])
    assert errors.count(NOTE) == 1


@pytest.mark.parametrize("release", newest_release())
def test_rollouts_are_what_the_config_says(made: Maker, tmp_path: Path, release: str) -> None:
    done = check_forked(made(Configuration(release, features=(*TOGETHER, "watch"))).root, "-c", DRIVER, str(tmp_path))
    check(json.loads(done.stdout.splitlines()[-1]), done.stderr)


def test_a_model_that_does_not_say_that_it_samples_is_saved(made: Maker, tmp_path: Path) -> None:
    """transformers reads such a generation config, and writes none."""
    root = made(Configuration(newest_release()[-1].values[0])).root
    code = "from toy.data.toy import ensure_toy_model as make; make({!r}, task='succ2')"
    assert forked(root, "-c", code.format(str(tmp_path / "model"))).returncode == 0
    file = tmp_path / "model" / "generation_config.json"
    stored = {**json.loads(file.read_text(encoding="utf-8")), "do_sample": False, "temperature": 0.6, "top_p": 0.9}
    file.write_text(json.dumps(stored), encoding="utf-8")
    settings = ("scale=toy", *SMALL, "trainer.total_training_steps=1")
    places = (f"actor_rollout_ref.model.path={tmp_path / 'model'}", f"trainer.default_local_dir={tmp_path / 'run'}")
    check_forked(root, "main.py", *settings, *places)
    (saved,) = (tmp_path / "run").glob("global_step_1/actor/**/generation_config.json")
    kept = json.loads(saved.read_text(encoding="utf-8"))
    assert (kept["temperature"], kept["top_p"], kept["do_sample"]) == (0.6, 0.9, True)


def test_a_run_says_what_the_trainer_does_not_know(made: Maker, tmp_path: Path) -> None:
    """However little it changes, and without the watch, which says how far it is."""
    root = made(Configuration(newest_release()[-1].values[0])).root
    key = "actor_rollout_ref.rollout"
    settings = ("scale=toy", *SMALL, "local.save_last=false", "trainer.total_training_steps=1")
    asked = (f"{key}.repetition_penalty=1.001", f"{key}.min_p=1e-6")
    done = check_forked(root, "main.py", *settings, *asked, f"trainer.default_local_dir={tmp_path}")
    said = done.stdout + done.stderr
    assert said.count("the engine samples with rollout.min_p=1e-06, rollout.repetition_penalty=1.001, which the") == 1
    assert f"hint: set {key}.min_p=0 {key}.repetition_penalty=1" in said
    assert "ignored from generation_config" not in said


WATCH_DRIVER = Path(__file__).with_name("watch_driver.py")
MEAN = "training/rollout_log_probs_diff_mean"
SETTINGS = ("scale=toy", *SMALL, "trainer.logger=[]", "local.save_last=false")
LENGTH = "trainer.total_training_steps"
OWN = "local.recompute_old_log_probs=true"
WATCH = "local.rollout.mismatch"
BFLOAT16 = ("actor_rollout_ref.rollout.dtype=bfloat16", f"{WATCH}.threshold=0.001")
LEARNING = "actor_rollout_ref.actor.optim.lr=0.02"
# What is wrong with the engine, and settings.
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "right": ("nothing", (f"{LENGTH}=4", f"{WATCH}.every=3")),
    "right, all rows": ("nothing", (OWN,)),
    "off": ("nothing", (f"{LENGTH}=4", f"{WATCH}.enable=false")),
    "temperature": ("temperature", ()),
    "stale, all rows": ("stale", (LEARNING, OWN)),
    "top_p": ("nothing", ("actor_rollout_ref.rollout.top_p=0.8",)),
    "bfloat16": ("nothing", BFLOAT16),
    "penalty": ("nothing", ("actor_rollout_ref.rollout.repetition_penalty=1.01",)),
    "penalty above the alarm": ("nothing", ("actor_rollout_ref.rollout.repetition_penalty=1.9",)),
}


@pytest.fixture(scope="module", params=newest_release())
def found(request: pytest.FixtureRequest, made: Maker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the watch says in each case; one process trains them all."""
    runs = tmp_path_factory.mktemp("runs")
    asked = {
        name: (wrong, [*SETTINGS, *settings, f"trainer.default_local_dir={runs / str(number)}"])
        for number, (name, (wrong, settings)) in enumerate(CASES.items())
    }
    done = check_forked(
        made(Configuration(request.param, features=("watch",))).root, str(WATCH_DRIVER), stdin=json.dumps(asked)
    )
    # Up to 0.5.0 upstream's actor computes its own log-probabilities in each step, which is compared then.
    looks = [True, True, True, request.param <= "0.5.0"]  # two, and every third
    return {**json.loads(done.stdout.splitlines()[-1]), "looks": looks}


def test_a_right_engine_is_watched_and_nothing_is_said(found: dict[str, Any]) -> None:
    for name in ("right", "right, all rows"):
        assert found[name]["said"] == []
        assert all(row[MEAN] < 1e-5 for row in found[name]["watched"] if row)
    assert [MEAN in row for row in found["right"]["watched"]] == found["looks"]
    assert all(found["right, all rows"]["watched"])


def test_the_engine_is_asked_only_where_somebody_looks(found: dict[str, Any]) -> None:
    """For log-probabilities it needs time."""
    assert found["right"]["given"] == found["looks"]
    assert all(found["right, all rows"]["given"])
    assert not any(found["off"]["given"])


def test_watching_changes_no_weight(found: dict[str, Any]) -> None:
    assert found["off"]["watched"] == [{}] * 4
    assert found["off"]["weights"] == found["right"]["weights"]


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("temperature", "temperature: the engine's are those at about 0.55, and the trainer computes with 1"),
        ("stale, all rows", "stale weights"),
        ("top_p", "top_p=0.8 and top_k=-1"),
        ("bfloat16", "dtype: the engine computes in bfloat16, and the trainer in float32"),
    ],
)
def test_the_alarm_names_the_cause_once(found: dict[str, Any], name: str, cause: str) -> None:
    warning, hint = found[name]["said"]
    assert warning.startswith("warning: the rollout engine and the trainer disagree")
    assert cause in warning
    assert hint.startswith("hint: ")


def test_what_the_trainer_does_not_know_is_said_below_the_alarm_and_above_it(found: dict[str, Any]) -> None:
    warning, hint = found["penalty"]["said"]
    assert "samples with rollout.repetition_penalty=1.01, which the trainer's log-probabilities do not know" in warning
    assert hint == "hint: set actor_rollout_ref.rollout.repetition_penalty=1"
    warning, hint = found["penalty above the alarm"]["said"]
    assert "Likely cause: repetition_penalty=1.9: the trainer's log-probabilities do not know it" in warning
    assert hint == "hint: set actor_rollout_ref.rollout.repetition_penalty=1"
