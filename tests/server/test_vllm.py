"""Rollouts from the real vLLM server, on a CPU.

The server may be installed apart from the trainer: VEXTRACT_VLLM_PYTHON names a Python that has vLLM, if the one that
runs the tests has not.
"""

import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Run, wait_until

PYTHON = os.environ.get("VEXTRACT_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.skipif(PYTHON is None, reason="needs vLLM, here or in the Python that VEXTRACT_VLLM_PYTHON names"),
]

QUESTIONS = ["1=", "37=", "12345=", "5+6="]
RESPONSE_LENGTH = 6


@pytest.fixture(scope="module")
def vserved(vllm_project: Path) -> Iterator[Callable[[str], Any]]:
    """Imports a module of the project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(vllm_project))
        patch.setenv("OMP_NUM_THREADS", "1")
        for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
            patch.delitem(sys.modules, name)  # other tests of this process have imported it: the trainer must not
        yield lambda name: importlib.import_module(f"vll.{name}")


def make_model(vserved: Callable[[str], Any], directory: Path, *, tied: bool, hidden_size: int = 64) -> Path:
    """The toy model with heads of a size that vLLM knows on a CPU."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    vserved("data.toy").ensure_toy_model(directory, tie_word_embeddings=tied)
    config = Qwen2Config.from_pretrained(directory)
    config.hidden_size, config.num_attention_heads, config.num_key_value_heads = hidden_size, hidden_size // 32, 1
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).float()
    model.generation_config.pad_token_id = model.generation_config.eos_token_id = config.eos_token_id
    model.save_pretrained(directory)
    return directory


@pytest.fixture(autouse=True, scope="module")
def _no_gpu() -> Iterator[None]:
    """What a project sets for its own process ends with these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        yield


class Served:
    """The policy, the rollout by a server, and the same model as transformers loads it."""

    def __init__(
        self, vserved: Callable[[str], Any], project: Path, model: Path, run: Path, *overrides: str, ranks: Any
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.vserved = vserved
        loading = vserved("settings.loading")
        settings = [
            "scale=toy",
            "local.device=cpu",
            f"data.max_response_length={RESPONSE_LENGTH}",
            f"actor_rollout_ref.model.path={model}",
            "actor_rollout_ref.rollout.mode=async",
            "actor_rollout_ref.rollout.calculate_log_probs=true",
            "local.server.bucket_megabytes=1",
            f"local.server.python={PYTHON}",
            f"trainer.default_local_dir={run}",
        ]
        self.config = loading.load_config(project / "config", [*settings, *overrides])
        loading.settle_device(self.config)
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.ranks = ranks
        self.policy = vserved("workers.policy").Policy(
            self.config, self.tokenizer, self.ranks, str(model), total_steps=1
        )
        self.model = AutoModelForCausalLM.from_pretrained(model).to(torch.float32).eval()
        self.engine: Any = None

    def build(self) -> Any:
        """The engine; it starts the server, unless the config has a URL."""
        choice = self.vserved("workers.rollout_engine")
        self.engine = choice.build_rollout_engine(self.config, self.tokenizer, self.ranks, self.policy)
        return self.engine

    def prompts(self, repeat: int = 1) -> Any:
        """Prompts of different lengths, padded on the left."""
        encoded = self.tokenizer(
            QUESTIONS, padding=True, padding_side="left", return_tensors="pt", add_special_tokens=False
        )
        mask = encoded["attention_mask"]
        columns = {
            "input_ids": encoded["input_ids"],
            "attention_mask": mask,
            "position_ids": (mask.cumsum(dim=-1) - 1).clamp(min=0),
        }
        return self.vserved("vendored.protocol").DataProto.from_single_dict(columns).repeat(repeat, interleave=True)

    def generate(self, repeat: int = 1, **meta_info: Any) -> Any:
        """The batch that the engine makes of the prompts."""
        prompts = self.prompts(repeat)
        prompts.meta_info = meta_info
        with self.engine.session():
            return self.engine.generate_sequences(prompts).batch

    def change(self) -> None:
        """Change all weights, of the policy and of the model that it is compared with."""
        import torch

        with torch.no_grad():
            for new, weight in zip(self.model.parameters(), self.policy.module.parameters(), strict=True):
                weight.add_(0.05 * torch.randn_like(weight))
                new.copy_(weight)

    def check(self) -> None:
        """Greedy tokens are those of transformers, and log-probabilities within 1e-4 of the model's."""
        import torch

        batch = self.generate(do_sample=False)
        for row, question in enumerate(QUESTIONS):
            ids = self.tokenizer(question, return_tensors="pt", add_special_tokens=False)["input_ids"]
            whole = self.model.generate(ids, max_new_tokens=RESPONSE_LENGTH, do_sample=False)
            written = whole.shape[1] - ids.shape[1]
            assert batch["responses"][row, :written].tolist() == whole[0, ids.shape[1] :].tolist()
            with torch.no_grad():
                every = self.model(whole).logits[0, :-1].log_softmax(-1).gather(-1, whole[0, 1:, None])[:, 0]
            torch.testing.assert_close(batch["rollout_log_probs"][row, :written], every[-written:], atol=1e-4, rtol=0)

    def close(self) -> None:
        """End the server."""
        if self.engine is not None:
            self.engine.close()


@pytest.fixture(scope="module")
def ranks(vserved: Callable[[str], Any]) -> Iterator[Any]:
    """The one process group of this process."""
    ranks = vserved("run.distributed").Ranks()
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def tied(
    vserved: Callable[[str], Any], vllm_project: Path, tmp_path_factory: pytest.TempPathFactory, ranks: Any
) -> Iterator[Served]:
    """A tied model, with its server."""
    folder = tmp_path_factory.mktemp("tied")
    model = make_model(vserved, folder / "toy", tied=True)
    served = Served(vserved, vllm_project, model, folder / "run", ranks=ranks)
    served.build()
    yield served
    served.close()


def test_greedy_responses_are_those_of_transformers_before_and_after_updates(tied: Served) -> None:
    tied.check()
    for _ in range(2):
        tied.change()
        tied.engine.sync_weights()
        tied.check()


@pytest.mark.thorough  # each server takes a minute to start
def test_a_server_given_by_url_serves_a_second_engine(tied: Served) -> None:
    url = tied.engine.connection.url
    engine = tied.vserved("workers.servers.engine").ServerEngine
    settings = tied.config.copy()
    settings.local.server.url = url
    kind = tied.vserved("workers.servers.vllm_server").VllmServer
    second = engine(settings, tied.tokenizer, tied.ranks, tied.policy, kind)
    assert second.process is None
    assert second.generate_sequences(tied.prompts()).batch["responses"].shape == (len(QUESTIONS), RESPONSE_LENGTH)
    second.close()
    with pytest.raises(tied.vserved("workers.rollout_interface").RolloutError, match="has other weights than it was"):
        tied.generate(2)
    tied.engine.sync_weights()
    tied.check()  # it goes on


@pytest.mark.thorough  # each server takes a minute to start
def test_what_does_not_fit_is_told(tied: Served, vllm_project: Path, tmp_path: Path) -> None:
    """A server of another model or with too little room, a request, weights; the next weights are taken."""
    import torch

    config_error = tied.vserved("settings.loading").ConfigError
    error = tied.vserved("workers.rollout_interface").RolloutError
    other = make_model(tied.vserved, tmp_path / "toy", tied=True, hidden_size=32)
    url = f"local.server.url={tied.engine.connection.url}"
    served = Served(tied.vserved, vllm_project, other, tmp_path / "run", url, ranks=tied.ranks)
    with pytest.raises(config_error, match="its hidden_size is 64, the policy's is 32"):
        served.build()
    with pytest.raises(config_error, match="--max-model-len 100000"):
        tied.engine.server.check(tied.policy.module.config, 100_000)
    interface = tied.vserved("workers.servers.interface")
    sampling = interface.Sampling(1.0, -1, 1.0, 4, (), False, False)
    with pytest.raises(error, match=r"/v1/completions: 400"):
        tied.engine.server.generate([interface.Request([1], 100_000, None)], sampling)
    directory = Path(tied.engine.directory)
    with pytest.raises(error, match="could not load_weights_file"):
        tied.engine.server.update([("model.norm.weight", torch.zeros(3))], str(directory), "1")
    assert list(directory.iterdir()) == []
    tied.engine.sync_weights()
    tied.check()


@pytest.mark.thorough  # each server takes a minute to start
def test_a_run_trains_and_leaves_nothing_when_it_is_killed(
    vserved: Callable[[str], Any], vllm_project: Path, tmp_path: Path, start: Callable[..., Run]
) -> None:
    model = make_model(vserved, tmp_path / "model" / "toy", tied=False)
    run = start(
        vllm_project,
        tmp_path / "run",
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.rollout.mode=async",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "actor_rollout_ref.rollout.n=16",
        "data.train_batch_size=8",
        "actor_rollout_ref.actor.ppo_mini_batch_size=8",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
        "data.env.task=succ",
        "trainer.total_training_steps=1000",
        f"local.server.python={PYTHON}",
    )
    run.wait_for_steps(40, timeout=200)
    steps = run.steps()[:40]
    assert max(step["training/rollout_probs_diff_max"] for step in steps) < 1e-4
    rewards = [step["critic/rewards/mean"] for step in steps]
    assert sum(rewards[-5:]) > sum(rewards[:5]) + 5 * 0.1
    os.kill(run.process.pid, signal.SIGKILL)
    wait_until(lambda: not run.server_processes(), timeout=30)
