"""Rollouts and models without a trainer compute what a trainer computes; and a trainer goes back to a checkpoint."""

import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.processes.launching import TORCHRUN
from tests.project.running import answer_of, forked, overrides, python
from tests.project.support import PACKAGE, TOGETHER, Configuration, Maker, copy_of
from tests.releases import newest_release

pytestmark = pytest.mark.slow
BEGIN = f"""
import json, os
import torch
from {PACKAGE} import ConfigError, LocalFSDPWorkers, LocalPPOTrainer, LocalRolloutManager, load_config
from {PACKAGE}.errors import ProjectError
from {PACKAGE}.vendored.protocol import DataProto
SMALL = {overrides("trainer.logger=[]")!r}
ROWS = [{{"prompt": f"{{a}}7=", "ground_truth": f"{{a + 1}}8"}} for a in range(9)] * 2
def reward(data_source, solution_str, ground_truth, extra_info=None):
    return sum(x == y for x, y in zip(solution_str, ground_truth)) / 2
def weights(module):
    return [float(value.double().sum()) for _, value in module.full_weights()]
def refusal(function):
    try:
        function()
    except ConfigError as error:
        return str(error)
"""


@pytest.fixture(scope="module", params=newest_release())
def project(request: pytest.FixtureRequest, made: Maker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    configuration = Configuration(request.param, features=(*TOGETHER, "critic", "lora"))
    return copy_of(made(configuration), tmp_path_factory.mktemp("parts"))


def run(root: Path, program: str, *launcher: str) -> Any:
    def launched(root: Path, script: str) -> subprocess.CompletedProcess[str]:
        return python(root, *launcher, script)

    return answer_of(root, BEGIN + textwrap.dedent(program), start=launched if launcher else forked)


def test_rollouts_are_those_of_the_trainer(project: Path) -> None:
    found = run(
        project,
        """
        config = load_config(*SMALL, "preset=grpo", "trainer.balance_batch=false", "trainer.experiment_name=rollouts")
        trainer = LocalPPOTrainer(config, reward_fn=reward)
        with trainer, LocalFSDPWorkers(config, engine_type="hf") as workers:
            same = []
            for step in trainer.steps(ROWS):
                length = step.batch.batch["prompts"].shape[-1]
                columns = ("input_ids", "attention_mask", "position_ids")
                prompts = DataProto.from_dict({name: step.batch.batch[name][:, :length] for name in columns})
                torch.rand(3)  # of no consequence
                answers = workers.generate_sequences(prompts)
                columns = set(answers.batch.keys()) & set(step.batch.batch.keys())
                same += [(name, torch.equal(answers.batch[name], step.batch.batch[name])) for name in columns]
                workers.update_actor(step.batch)
            last = trainer.save()
            prompts = ["12=", [{"role": "user", "content": "33="}]]
            answers = workers.generate_sequences(prompts, n=2, do_sample=False)
            groups = answers.non_tensor_batch["uid"].tolist()
            texts = trainer.generate(prompts, n=2, do_sample=False)
            with LocalRolloutManager(config, path=last / "actor") as rollout:
                like = [texts == part.generate(prompts, n=2, do_sample=False) for part in (workers, rollout)]
        print(json.dumps([same, groups, answers.batch["responses"].shape[0], like]))
        """,
    )
    same, groups, rows, like = found
    assert [name for name, equal in same if not equal] == []
    assert len(same) >= 12
    assert groups == ["0", "0", "1", "1"]
    assert rows == 4
    assert like == [True, True]


def test_models_compute_what_the_trainer_computes(project: Path) -> None:
    found = run(
        project,
        """
        config = load_config(*SMALL, "preset=ppo", "algorithm.use_kl_in_reward=true", "trainer.experiment_name=models",
            "critic.ppo_mini_batch_size=8", "critic.ppo_micro_batch_size_per_gpu=16", "trainer.total_training_steps=3")
        with LocalPPOTrainer(config) as trainer, LocalFSDPWorkers(config) as workers:
            assert not workers.policy.optimizer.state
            same, metrics = [], []
            for step in trainer.steps():
                batch = step.batch
                computed = {
                    "old_log_probs": workers.compute_log_prob(batch),
                    "ref_log_prob": workers.compute_ref_log_prob(batch),
                    "values": workers.compute_values(batch),
                }
                same += [torch.equal(batch.batch[name], found.batch[name]) for name, found in computed.items()]
                done = workers.update_critic(batch) | workers.update_actor(batch)
                metrics += [bool(done[name] == step.metrics[name]) for name in done if not name.startswith("perf/")]
                for mine, its in ((workers.policy, trainer.policy), (workers.critic, trainer.critic)):
                    same.append(weights(mine) == weights(its))
            last = trainer.save()
        with LocalFSDPWorkers(config, path=last / "actor") as saved:
            same.append(weights(saved.policy) == weights(trainer.policy))
        print(json.dumps([same, metrics]))
        """,
    )
    same, metrics = found
    assert same == [True] * 16
    assert all(metrics)
    assert len(metrics) > 20


BACK = """
config = load_config(*SMALL, "preset=ppo", "trainer.experiment_name=" + NAME, "trainer.total_training_steps=4",
    "critic.ppo_mini_batch_size=8", "critic.ppo_micro_batch_size_per_gpu=16", "trainer.save_freq=1", *MORE)
with LocalPPOTrainer(config, reward_fn=reward) as trainer:
    trainer.assemble(ROWS)
    def steps():
        return [[weights(trainer.policy), weights(trainer.critic), trainer.steps_done] for _ in trainer.steps()]
    first = steps()
    # Two batches are an epoch: the checkpoint is of the end of the first.
    path = trainer.load(trainer.checkpoints.directory / "global_step_1")
    at = [weights(trainer.policy), weights(trainer.critic), trainer.steps_done]
    again = steps()
    last = trainer.load(trainer.checkpoints.directory)
    elsewhere = trainer.save(trainer.checkpoints.directory / "elsewhere")
    refused = refusal(lambda: trainer.load(trainer.checkpoints.directory / "global_step_9"))
    trainer.load(path)
    for step in trainer.steps():
        during = refusal(lambda: trainer.load(path))
        break
if os.environ.get("RANK", "0") == "0":
    print(json.dumps([at == first[0], again == first[1:], last.name, elsewhere.name, refused, during]))
"""


ADAPTER = pytest.param(2, ["actor_rollout_ref.model.lora_rank=4"], marks=pytest.mark.thorough)


@pytest.mark.parametrize(("processes", "more"), [(1, []), ADAPTER])
def test_a_trainer_goes_back_to_a_checkpoint(project: Path, processes: int, more: list[str]) -> None:
    launcher = [*TORCHRUN, f"--nproc-per-node={processes}"] if processes > 1 else []
    found = run(project, f"NAME, MORE = 'back_of_{processes}_{len(more)}', {more}\n{BACK}", *launcher)
    assert found[:4] == [True, True, "global_step_4", "global_step_4"]
    assert "is not a global_step_N directory" in found[4]
    assert "load after fit()" in found[5]


# What is called in which place, and what its error begins with.
NO_PROMPTS, CLOSED = "1 responses to 0 prompts are asked for", "this LocalPPOTrainer has been closed"
MISUSE = [
    ("before", "LocalRolloutManager(config, engine_type='vllm')", "actor_rollout_ref.rollout.name is 'vllm'"),
    ("before", "LocalPPOTrainer(config, callbacks=[5])", "a callback is 5, which has no method"),
    ("before", "LocalPPOTrainer({})", "the config is of type dict"),
    ("before", "load_config(123)", "settings are given as 123, of type int"),
    ("open", "rollouts.generate_sequences([])", NO_PROMPTS),
    ("open", "rollouts.generate(['12='], n=0)", "0 responses to 1 prompts are asked for"),
    ("trainer", "trainer.fit(ROWS)", "the run has its prompts already"),
    ("trainer", "trainer.save('/proc/x')", "cannot save a checkpoint in /proc/x"),
    ("closed", "rollouts.generate_sequences(['12='])", "this LocalRolloutManager has been closed"),
    *(("closed", f"trainer.{call}", CLOSED) for call in ("fit()", "train_step(ROWS)", "generate(['1='])", "load('x')")),
]


def test_misuse_is_an_error_of_the_projects_that_says_what_to_do(project: Path) -> None:
    found = run(
        project,
        f"""
        def try_all(place):
            for where, call, _ in {MISUSE!r}:
                try:
                    where == place and eval(call)
                except ProjectError as error:
                    found[call] = str(error)
        config, found = load_config(*SMALL, "trainer.experiment_name=misuse"), {{}}
        try_all("before")
        with LocalRolloutManager(config) as rollouts:
            try_all("open")
        with LocalPPOTrainer(config, reward_fn=reward) as trainer:
            trainer.assemble(ROWS)
            try_all("trainer")
        try_all("closed")
        print(json.dumps(found))
        """,
    )
    for _, call, start in MISUSE:
        assert found[call].startswith(start), (call, found[call])
        assert "hint: " in found[call], call
    assert "vextract upgrade --engine vllm" in found["LocalRolloutManager(config, engine_type='vllm')"]
