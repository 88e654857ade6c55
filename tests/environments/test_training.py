"""Episodes in training: what is learned from, in which direction, by how many processes; one's own; one that hangs."""

import itertools
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.environments.support import MULTI_TURN, Project, rollouts_of
from tests.processes.launching import TORCHRUN
from tests.project.running import check_forked, check_python, overrides, started, train

# Full precision is meant where torch says that it casts nothing.
pytestmark = pytest.mark.filterwarnings("ignore:In CPU autocast")


@pytest.fixture(scope="module")
def ranks(episodic: Project) -> Iterator[Any]:
    """A group of one process."""
    made = episodic.module("run.distributed").Ranks()
    yield made
    made.close()


@pytest.fixture
def policy(episodic: Project, tokenizer: Any, model_path: str, ranks: Any) -> Callable[[], Any]:
    """A function that makes the policy anew."""
    config = episodic.config(f"actor_rollout_ref.model.path={model_path}", "local.device=cpu", "local.dtype=float32")
    config.actor_rollout_ref.actor.update({"ppo_mini_batch_size": 4, "ppo_micro_batch_size_per_gpu": 16})
    config.actor_rollout_ref.rollout.n = 4
    return lambda: episodic.module("workers.policy").Policy(config, tokenizer, ranks, model_path, 1)


@pytest.fixture
def engine(episodic: Project, tokenizer: Any, ranks: Any, policy: Callable[[], Any]) -> Any:
    made = policy()
    return episodic.module("workers.rollout_engine").build_rollout_engine(made.config, tokenizer, ranks, made)


@pytest.fixture
def prompts(episodic: Project, tokenizer: Any) -> Any:
    """Four prompts of different lengths, each four times, as the trainer hands them over."""

    data = episodic.module("vendored.protocol").DataProto
    texts = ["<user>?<assistant>", "<user>12<assistant>", "<user>?!?<assistant>", "<assistant>"]
    encoded = tokenizer(texts, padding="max_length", max_length=8, padding_side="left", return_tensors="pt")
    infos: Any = np.empty(4, dtype=object)
    infos[:] = [{"digit": digit} for digit in range(4)]
    columns = {"uid": np.array(list("abcd"), dtype=object), "extra_info": infos, "index": np.arange(4)}
    mask = encoded["attention_mask"]
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    tensors = {"input_ids": encoded["input_ids"], "attention_mask": mask, "position_ids": positions}
    torch.manual_seed(0)
    return data.from_dict(tensors, columns, {"global_steps": 1}).repeat(4, interleave=True)


@pytest.fixture
def batch(episodic: Project, tokenizer: Any, ranks: Any, engine: Any, prompts: Any) -> Any:
    """Episodes that the toy model has played."""
    rollouts = rollouts_of(episodic, engine.policy.config, tokenizer, ranks, engine)
    return rollouts.generate(prompts)


def test_log_probs_are_those_of_the_whole_episode(batch: Any, policy: Callable[[], Any], model_path: str) -> None:

    model = AutoModelForCausalLM.from_pretrained(model_path).to(torch.float32).eval()
    log_probs = policy().compute_log_prob(batch).batch["old_log_probs"]
    for row, mask in enumerate(batch.batch["attention_mask"].bool()):
        ids = batch.batch["input_ids"][row][mask][None]
        written = batch.batch["attention_mask"][row, 8:].sum()
        with torch.no_grad():
            alone = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[-written:, 0]
        torch.testing.assert_close(log_probs[row, :written], alone, atol=1e-5, rtol=0)
    assert batch.batch["response_mask"].sum() > len(log_probs) * 4
    assert (batch.non_tensor_batch["turns"] > 1).any()


def test_only_the_models_tokens_are_learned_from(batch: Any, policy: Callable[[], Any]) -> None:
    """What stands at the environment's tokens moves no weight: neither advantages nor old log-probabilities there."""

    mask = batch.batch["response_mask"].bool()
    assert (batch.batch["attention_mask"][:, 8:].bool() & ~mask).any()
    generator = torch.Generator().manual_seed(1)
    batch.batch["advantages"] = torch.randn(mask.shape, generator=generator) * mask
    batch.batch["old_log_probs"] = policy().compute_log_prob(batch).batch["old_log_probs"]

    def updated(change: float) -> dict[str, Any]:
        model = policy()
        changed = batch.select(deepcopy=True)
        for name in ("advantages", "old_log_probs"):
            changed.batch[name] = torch.where(mask, changed.batch[name], changed.batch[name] + change)
        model.update(changed)
        return {name: weight.clone() for name, weight in model.module.state_dict().items()}

    before, plain, other = policy().module.state_dict(), updated(0.0), updated(7.0)
    assert all(torch.equal(plain[name], other[name]) for name in plain)
    assert not all(torch.equal(plain[name], before[name]) for name in plain)


EPISODES = (
    "data.train_batch_size=20",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=20",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=160",
)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def trained(episodic: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the recipe with a quarter of its episodes per step: the directory of a copy of the project."""
    root = Path(shutil.copytree(episodic.root, tmp_path_factory.mktemp("trained") / "project"))
    forty = (f"trainer.{name}=40" for name in ("total_training_steps", "test_freq", "save_freq"))
    places = ("trainer.validation_data_dir=one", "trainer.default_local_dir=run")
    check_forked(root, "main.py", "trainer.val_before_train=false", *EPISODES, *forty, *places)
    return root


@pytest.mark.slow
def test_it_learns_more_than_one_guess_can_give(trained: Path) -> None:
    """Forty steps, of a way that ends near one; with one turn nothing does better than one in ten."""
    rows = rows_of(trained / "run" / "metrics.jsonl")
    rewards = [row["critic/score/mean"] for row in rows]
    assert rewards[0] < 0.1
    assert sum(rewards[-5:]) / 5 > 0.18
    assert rows[-1]["val-core/guess_digit/acc/mean@1"] >= 0.2
    assert rows[-1]["env/errors"] == 0


@pytest.mark.slow
@pytest.mark.thorough
def test_two_processes_play_the_same_episodes(trained: Path) -> None:
    """Greedy validation of the trained model: five episodes on each of two processes, of different lengths."""
    model = "actor_rollout_ref.model.path=run/global_step_40/actor"
    only = ("trainer.val_only=true", "trainer.validation_data_dir=two", "trainer.default_local_dir=run_two")
    check_python(trained, *TORCHRUN, "--nproc-per-node=2", "main.py", "scale=toy", model, *only)
    wanted = ("output", "score", "turns", "gts")
    one, two = (
        [tuple(row[name] for name in wanted) for row in rows_of(trained / file)]
        for file in ("one/40.jsonl", "two/0.jsonl")
    )
    assert len(one) == 10
    assert one == two
    assert len({turns for _, _, turns, _ in one}) > 1


# Begins from seeds, in coroutines, and reports what is no number.
OWN = """
import random, time


def make_env(settings):
    return Weather(settings.get("days", 2))


class Weather:
    def __init__(self, days):
        self.left = days

    async def reset(self, *, seed=None, options=None):
        self.tomorrow = random.Random(seed).choice("0123456789")
        return f"{seed % 10}?", {}

    async def step(self, action):
        self.left -= 1
        right = action[:1] == self.tomorrow
        return "-", float(right), right, self.left == 0, {"acc": float(right), "seen": [action]}
"""
HANGS = (
    OWN.partition("    async def step")[0]
    + """
    def step(self, action):
        print("hanging", flush=True)
        while True:
            try:
                time.sleep(600)
            except OSError:
                pass
"""
)


def project_with(environment: str, project: Project, folder: Path) -> Path:
    root = Path(shutil.copytree(project.root, folder / "project"))
    (root / project.package / "custom" / "env_wrapper.py").write_text(environment, encoding="utf-8")
    return root


def test_an_environment_of_ones_own_trains(episodic: Project, tmp_path: Path) -> None:
    """In one turn, and in two: without a change of any other file."""
    root = project_with(OWN, episodic, tmp_path)
    *_, last = train(root, f"{MULTI_TURN}.enable=false")
    assert last["step"] == 2
    assert "reward/acc/mean" in last
    assert "reward/seen/mean" not in last
    (root / "checkpoints").rename(root / "one")
    *_, last = train(root, f"{MULTI_TURN}.enable=true", "data.max_response_length=20")
    assert (last["step"], last["env/errors"], last["env/turns/max"]) == (2, 0, 2)


def test_a_run_that_hangs_ends(episodic: Project, tmp_path: Path) -> None:
    root, output = project_with(HANGS, episodic, tmp_path), tmp_path / "output"
    hanging = started(root, output, "main.py", *overrides("data.env.val_size=4"))
    try:
        for sign in ("hanging", "stopping after this step"):
            while not (output.exists() and sign in output.read_text(encoding="utf-8")):
                assert hanging.poll() is None, output.read_text(encoding="utf-8")
                time.sleep(0.1)
            time.sleep(1.0)  # a signal that comes at once is the same one, passed on
            hanging.send_signal(signal.SIGTERM)
        code = hanging.wait(120)
    finally:
        hanging.kill()
    seen = output.read_text(encoding="utf-8")
    assert code == 130, seen
    assert "interrupted" in seen.partition("stopping after this step")[2]
    assert "Traceback" not in seen


# An episode: the actions of its turns, and their rewards. A state is how often `on` was chosen.
STOP, ON = 0, 1
OUTCOMES: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...] = (
    ((STOP,), (0.3,)),
    ((ON, STOP), (0.1, 1.0)),
    ((ON, ON, STOP), (0.1, -0.5, 2.0)),
    ((ON, ON, ON), (0.1, -0.5, 0.0)),
)
WIDTH = 6  # a token of the model and one of the environment for each turn
GROUP = 3  # episodes of a prompt
Estimator = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def log_probs_of(logits: torch.Tensor, actions: tuple[int, ...]) -> torch.Tensor:
    """Log-probabilities of an episode's actions; logits: (3 states, 2 actions)."""
    table = logits.log_softmax(-1)
    return torch.stack([table[state, action] for state, action in enumerate(actions)])


def expected_gradient(estimate: Estimator, logits: torch.Tensor) -> torch.Tensor:
    """The mean over all groups of episodes of the gradient that an estimator's advantages give."""

    total = torch.zeros_like(logits)
    index = np.array(["a"] * GROUP, dtype=object)
    for group in itertools.product(OUTCOMES, repeat=GROUP):
        rewards, mask = torch.zeros(2, GROUP, WIDTH, dtype=torch.float64)
        taken = torch.zeros(GROUP, WIDTH, dtype=torch.float64)
        for row, (actions, given) in enumerate(group):
            places = torch.arange(len(actions)) * 2
            rewards[row, places], mask[row, places] = torch.tensor(given, dtype=torch.float64), 1.0
            taken[row, places] = log_probs_of(logits, actions)
        with torch.no_grad():
            chance = taken.sum().exp()
            advantages, _ = estimate(token_level_rewards=rewards, response_mask=mask, index=index)
        (gradient,) = torch.autograd.grad((advantages.detach() * taken).sum() / GROUP, logits)
        total += chance * gradient
    return total


def per_turn_normalised(token_level_rewards: Any, response_mask: Any, **others: Any) -> Any:
    """What suggests itself: each turn's reward-to-go, normalised over the group's episodes that have the turn."""
    returns = (token_level_rewards * response_mask).flip(-1).cumsum(-1).flip(-1)
    count = response_mask.sum(0).clamp(min=1)
    mean = (returns * response_mask).sum(0) / count
    deviation = ((((returns - mean) ** 2) * response_mask).sum(0) / count).sqrt()
    return (returns - mean) / (deviation + 1e-6) * response_mask, returns


def test_which_estimators_have_the_gradient_of_the_expected_return(episodic: Project) -> None:
    """Of others it has another direction; GRPO's without the deviation is shorter by a factor."""
    episodic.module("hooks").import_hooks()
    known = episodic.module("registries").ADV_ESTIMATOR_REGISTRY
    logits = torch.tensor([[0.4, -0.3], [0.2, 0.9], [-1.0, 0.5]], dtype=torch.float64, requires_grad=True)
    value = sum(log_probs_of(logits, actions).sum().exp() * sum(given) for actions, given in OUTCOMES)
    (true,) = torch.autograd.grad(value, logits)
    by_mean = partial(known["grpo"], norm_adv_by_std_in_grpo=False)
    for estimate, factor in ((known["turn_rloo"], 1.0), (known["rloo"], 1.0), (by_mean, (GROUP - 1) / GROUP)):
        torch.testing.assert_close(expected_gradient(estimate, logits), true * factor, rtol=0, atol=1e-12)
    for estimate in (known["grpo"], per_turn_normalised):
        found = expected_gradient(estimate, logits).flatten()
        assert torch.nn.functional.cosine_similarity(found, true.flatten(), dim=0) < 1 - 1e-4, estimate
