"""A run that is started from Python: the same as by main.py, with data, rewards, models and callbacks of one's own."""

import hashlib
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import answer_of, overrides
from tests.project.support import PACKAGE

pytestmark = pytest.mark.slow
BEGIN = f"""
import json
import transformers
from {PACKAGE} import ConfigError, LocalPPOTrainer, load_config
SMALL = {overrides("trainer.logger=[]")!r}
ROWS = [{{"prompt": f"{{a}}7=", "ground_truth": f"{{a + 1}}8"}} for a in range(9)] * 4
def reward(data_source, solution_str, ground_truth, extra_info=None):
    return sum(x == y for x, y in zip(solution_str, ground_truth)) / 2
"""


def run(root: Path, program: str) -> Any:
    """Run a script in a project; return the last line that it prints, as JSON."""
    return answer_of(root, BEGIN + textwrap.dedent(program))


def weights(root: Path, name: str, step: int) -> str:
    file = root / f"checkpoints/{PACKAGE}/{name}/global_step_{step}/actor/model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_data_reward_and_callbacks_of_ones_own(project: Path) -> None:
    found = run(
        project,
        """
        class Watching:
            def __init__(self): self.seen = []
            def on_step_end(self, args, state, control, **details):
                control.should_training_stop = state.global_step == 2
            def on_evaluate(self, args, state, control, metrics, **details):
                self.seen.append(["evaluate", len(metrics) > 0])
            def on_save(self, args, state, control, trainer, **details):
                self.seen.append(["save", trainer.steps_done])
        watching = Watching()
        own = {"experiment_name": "own", "total_training_steps": 4, "test_freq": 2}
        config = load_config(*SMALL, {"trainer": own})
        given = {"train_dataset": ROWS, "val_dataset": ROWS[:4], "reward_fn": reward, "callbacks": [watching]}
        with LocalPPOTrainer(config, **given) as trainer:
            stopped = trainer.fit()
            first = [stopped.finished, stopped.steps, sorted(stopped.metrics), stopped.last_checkpoint.name]
            assert stopped.samples
            result = trainer.fit()
            batch, metrics = trainer.train_step(ROWS[:8])
            print(json.dumps([first, [result.finished, result.steps], trainer.steps_done, len(batch), watching.seen]))
        """,
    )
    first, second, steps, rows, seen = found
    assert first == [False, 2, [1, 2], "global_step_2"]
    assert second == [True, 4]
    assert (steps, rows) == (5, 32)
    assert seen == [["evaluate", True], ["save", 2], ["evaluate", True], ["save", 4]]


def test_a_model_that_is_loaded_is_trained_in_place(project: Path) -> None:
    found = run(
        project,
        """
        from transformers import AutoModelForCausalLM, AutoTokenizer
        first = LocalPPOTrainer(load_config(*SMALL, "trainer.experiment_name=first"))
        path = str(first.fit().last_checkpoint / "actor")
        model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
        settings = [*SMALL, "algorithm.use_kl_in_reward=true"]
        config = load_config(*settings, "trainer.experiment_name=object")
        with LocalPPOTrainer(config, model=model, tokenizer=tokenizer) as second:
            second.fit()
        assert second.policy.module is model
        named = {"actor_rollout_ref.model.path": path}
        config = load_config(*settings, "scale=toy", "trainer.experiment_name=path", named)
        with LocalPPOTrainer(config) as third:
            third.fit()
        first.close()
        print("true")
        """,
    )
    assert found is True
    assert weights(project, "object", 2) == weights(project, "path", 2)
