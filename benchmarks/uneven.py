"""How long episodes take whose environments answer unevenly late, each going on by itself against turn by turn."""

import importlib.util
import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.environment import python_in
from benchmarks.training import make_project

# Runs in a project of engine vllm: the real vLLM, in this process. The two ways alternate, so that a busy machine slows
# both alike. Prints the seconds of each, what the environments waited in all, and whether the tokens were the same.
MEASURE = """
import asyncio, json, random, sys, time
from pathlib import Path
import numpy as np
import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from bench.settings import load_config
from bench.custom import env_wrapper
from bench.data.toy import ensure_toy_model
from bench.episodes.playing import play_episodes
from bench.episodes.turns import context_batch
from bench.run.distributed import Ranks, drawing_from
from bench.settings.loading import settle_device
from bench.training.batches import objects
from bench.training.rollouts import Rollouts
from bench.workers.policy import Policy
from bench.workers.rollout_engine import build_rollout_engine

torch.set_num_threads(1)
folder, mean, slow, rounds = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
EPISODES, TURNS, TOKENS = 32, 5, 16
path = folder / "model"
ensure_toy_model(path)
config = Qwen2Config.from_pretrained(path)
config.hidden_size, config.num_attention_heads, config.num_key_value_heads = 128, 4, 1
model = Qwen2ForCausalLM(config).float()
model.generation_config.pad_token_id = model.generation_config.eos_token_id = config.eos_token_id
model.save_pretrained(path)
settings = {
    "scale": "toy",
    "actor_rollout_ref.model.path": str(path),
    "actor_rollout_ref.rollout.ignore_eos": True,
    "actor_rollout_ref.rollout.multi_turn.enable": True,
    "data.max_response_length": TURNS * (TOKENS + 8),
    "local.env.max_turn_tokens": TOKENS,
    "local.env.concurrency": 1000,
    "trainer.default_local_dir": str(folder / "run"),
}


class Late:
    def reset(self, *, seed=None, options=None):
        self.place, self.turns = options["place"], 0

    async def step(self, action):
        self.turns += 1
        late = random.Random(f"{self.place} {self.turns}")
        await asyncio.sleep(slow * mean if late.random() < 1 / slow else mean / 10)
        return "1", 0.0, self.turns == TURNS, False, {}


config = load_config(settings)
settle_device(config)
tokenizer = AutoTokenizer.from_pretrained(path)
ranks = Ranks()
policy = Policy(config, tokenizer, ranks, str(path), total_steps=1)
engine = build_rollout_engine(config, tokenizer, ranks, policy)
env_wrapper.make_env = lambda settings: Late()
prompts = context_batch([tokenizer("12=")["input_ids"]] * EPISODES, tokenizer.pad_token_id, {"global_steps": 1})
prompts.non_tensor_batch["extra_info"] = objects({"place": place} for place in range(EPISODES))
prompts.non_tensor_batch["uid"] = np.array([str(place) for place in range(EPISODES)], dtype=object)
seconds, written = {"turn by turn": [], "by itself": []}, []
rollouts = play_episodes(Rollouts(config, ranks, engine), config, tokenizer)
for number in range(rounds + 1):
    for name in seconds:
        rollouts.episodes.loop.turn_by_turn = name == "turn by turn"
        start = time.perf_counter()
        with drawing_from(1):
            batch = rollouts.generate(prompts)
        if number:
            seconds[name].append(time.perf_counter() - start)
        if name == "by itself":
            written.append(batch.batch["responses"])
        assert set(batch.non_tensor_batch["env_end"]) == {"terminated"}
same = all(torch.equal(tokens, written[0]) for tokens in written)
print(json.dumps({"seconds": seconds, "same": same}))
"""
ROUNDS = 3
# Seconds that an environment takes in the mean, and how many times that the slow ones take, which are as rare.
DELAYS = ((0.0, 1.0), (0.05, 4.0), (0.1, 10.0), (0.2, 20.0))


def run() -> bool:
    """Print the ratios; True where uneven environments cost less when episodes go on by themselves."""
    if importlib.util.find_spec("vllm") is None:
        print("left out: vLLM is not installed (`make bench` installs it)")
        return True
    print("32 episodes of 5 turns of 16 tokens, by the vLLM of this process.\n")
    print("| an answer takes, in the mean | slow ones | turn by turn | by itself | ratio |")
    print("|---|---|---|---|---|")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench", engine="vllm", features=("episodes", "overlap"))
        for mean, slow in DELAYS:
            output = python_in(project, "-c", MEASURE, folder, str(mean), str(slow), str(ROUNDS))
            found = json.loads(output.splitlines()[-1])
            turn_by_turn, by_itself = (statistics.median(values) for values in found["seconds"].values())
            ratio = by_itself / turn_by_turn
            slowest = f"1 in {slow:.0f}, {mean * slow:.1f} s" if mean else "-"
            print(f"| {mean * 1000:.0f} ms | {slowest} | {turn_by_turn:.2f} s | {by_itself:.2f} s | {ratio:.2f}x |")
            good = good and found["same"] and (ratio < 1.0 or not mean)
    return good
