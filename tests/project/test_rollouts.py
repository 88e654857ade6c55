"""Rollouts are sampled as the config says, and the watch over engine and trainer says where they are not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import SMALL, check_forked
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


# Trains every case that stdin asks for: a name, what is wrong with the engine, and settings.
WATCHED = """
import json, sys, toy

def spoil(engine, wrong):
    if wrong == "temperature":
        engine.config.temperature = 0.55
    if wrong == "stale":  # it has a copy of the weights, and does not take over updates
        engine.shares_weights = False
        engine.model = engine.module.model = engine._whole_copy()
        engine.sync_weights()
        engine.sync_weights = lambda: None

def train(wrong, settings):
    given, said, rows = [], [], []
    with toy.LocalPPOTrainer(toy.load_config(*settings)) as trainer:
        trainer.watch.say = said.append
        engine = trainer.rollouts.engine
        spoil(engine, wrong)
        write = engine.generate_sequences
        def noting(*arguments, **settings):
            output = write(*arguments, **settings)
            given.append("rollout_log_probs" in output.batch.keys())
            return output
        engine.generate_sequences = noting
        rows = [step.metrics for step in trainer.steps()]
        weights = [float(weight.double().sum()) for weight in trainer.policy.module.parameters()]
    means = [row.get("training/rollout_log_probs_diff_mean") for row in rows]
    return {"said": said, "given": given, "means": means, "weights": weights}

print(json.dumps({name: train(*case) for name, case in json.load(sys.stdin).items()}))
"""
SETTINGS = ("scale=toy", *SMALL, "trainer.logger=[]", "local.save_last=false")
FOUR = "trainer.total_training_steps=4"
ROLLOUT, WATCH = "actor_rollout_ref.rollout", "local.rollout.mismatch"
LEARNING = ("actor_rollout_ref.actor.optim.lr=0.02", "local.recompute_old_log_probs=true")
PENALTY = f"hint: set {ROLLOUT}.repetition_penalty=1"
# What is wrong with the engine, settings, and what is said: nothing, or a part of the warning and the hint's beginning.
CASES: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    "right": ("nothing", (FOUR, f"{WATCH}.every=3"), []),
    "off": ("nothing", (FOUR, f"{WATCH}.enable=false"), []),
    "temperature": (
        "temperature",
        (),
        ["temperature: the engine's are those at about 0.55, and the trainer com", "hint"],
    ),
    "stale": ("stale", LEARNING, ["stale weights", "hint: "]),
    "top_p": ("nothing", (f"{ROLLOUT}.top_p=0.8",), ["top_p=0.8 and top_k=-1", "hint: "]),
    "below": (
        "nothing",
        (f"{ROLLOUT}.repetition_penalty=1.01",),
        ["rollout.repetition_penalty=1.01, which the trainer's log-probabilities do not know", PENALTY],
    ),
    "above": (
        "nothing",
        (f"{ROLLOUT}.repetition_penalty=1.9",),
        ["Likely cause: repetition_penalty=1.9: the trainer's log-probabilities do not know it", PENALTY],
    ),
}


@pytest.mark.parametrize("release", newest_release())
def test_the_watch_says_once_what_is_wrong_with_an_engine(made: Maker, release: str, tmp_path: Path) -> None:
    """A right one is looked at when it is asked for, and watching changes no weight."""
    asked = {
        name: (wrong, [*SETTINGS, *settings, f"trainer.default_local_dir={tmp_path / name}"])
        for name, (wrong, settings, _) in CASES.items()
    }
    root = made(Configuration(release, features=("watch",))).root
    done = check_forked(root, "-c", WATCHED, stdin=json.dumps(asked))
    found = json.loads(done.stdout.splitlines()[-1])
    for name, (_, _, expected) in CASES.items():
        said = found[name]["said"]
        assert len(said) == len(expected), (name, said)
        assert all(part in text for part, text in zip(expected, said, strict=True)), (name, said)
    # Up to 0.5.0 upstream's actor computes its own log-probabilities in each step, which is compared then.
    looks = [True, True, True, release <= "0.5.0"]  # two, and every third
    assert [mean is not None and mean < 1e-5 for mean in found["right"]["means"]] == looks
    assert found["right"]["given"] == looks, "log-probabilities take time: the engine is asked where somebody looks"
    assert not any(found["off"]["given"])
    assert found["off"]["weights"] == found["right"]["weights"]
