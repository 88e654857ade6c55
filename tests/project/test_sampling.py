"""Rollouts are sampled as the config says, whatever the model's directory says, and end at all tokens that end one."""

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
