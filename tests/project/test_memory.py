"""What a run asks of torch and of the system, as far as it can be seen without a GPU; and `vextract plan`."""

import json
import re
from pathlib import Path

import pytest

from tests.project.running import check_forked, inside
from tests.project.support import Configuration, Maker
from tests.releases import NEWEST, newest_release

pytestmark = pytest.mark.slow

KEY = "actor_rollout_ref.actor.fsdp_config.full_determinism"
DETERMINISTIC = """
import json, os, sys
from toy import LocalPPOTrainer, load_config
import torch
found = []
for value in "false", "true":
    own = "trainer.default_local_dir=" + sys.argv[1] + value, "trainer.total_training_steps=2"
    own = (*own, "trainer.test_freq=-1", "trainer.logger=[]", sys.argv[2] + "=" + value)
    with LocalPPOTrainer(load_config(*own)) as trainer:
        result = trainer.fit()
    norms = [result.metrics[step]["actor/grad_norm"] for step in (1, 2)]
    found.append([torch.are_deterministic_algorithms_enabled(), os.environ.get("CUBLAS_WORKSPACE_CONFIG"), norms])
print(json.dumps(found))
"""
ONE_TOO_MANY = """
import torch
torch.cuda.is_available, torch.cuda.device_count = (lambda: True), (lambda: 1)
from toy.errors import ConfigError
from toy.run.distributed import Ranks
try:
    Ranks()
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("release", newest_release())
def test_kernels_that_add_up_in_one_order(
    made: Maker, tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    done = check_forked(
        made(Configuration(release, features=("provenance",))).root, "-c", DETERMINISTIC, str(tmp_path), KEY
    )
    (*before, first), (*after, second) = json.loads(done.stdout.splitlines()[-1])
    assert (before, after) == ([False, None], [True, ":4096:8"])
    assert first == second


def test_more_processes_than_gpus(root: Path) -> None:
    shown = check_forked(root, "-c", ONE_TOO_MANY, LOCAL_RANK="1", RANK="1", WORLD_SIZE="2").stdout
    assert "process 2 of this machine has no GPU of its own: torch finds 1" in shown


GIB = 2**30
EVERYTHING = Configuration(NEWEST[-1], everything=True)
# Qwen2.5-7B's config.json, without the keys that no size depends on.
QWEN_7B = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
WEIGHTS_7B = 7_615_616_512
SMALL = {**QWEN_7B, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 1000}
SMALL |= {"num_hidden_layers": 2, "num_key_value_heads": 2}
OF_7B = (
    "local.device=cuda",
    "data.train_batch_size=16",
    "data.max_prompt_length=32",
    "data.max_response_length=32",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=16",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
)


def model(folder: Path, config: dict[str, object]) -> str:
    """A directory with a config.json and nothing else."""
    path = folder / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return f"actor_rollout_ref.model.path={path}"


def planned(root: Path, *arguments: str) -> tuple[int, dict[str, list[float]], str]:
    """The exit code of `vextract plan`, the table in GiB, and all that was printed."""
    done = inside(root, "plan", *arguments)
    rows = re.findall(r"^(\w.*?)((?: +(?:[\d.]+|-))+)$", done.stdout, re.M)
    table = {name: [0.0 if cell == "-" else float(cell) for cell in cells.split()] for name, cells in rows}
    return done.returncode, table, done.stdout + done.stderr


def test_seven_billion_weights_on_eight_devices(made: Maker, tmp_path: Path) -> None:
    root = made(EVERYTHING).root
    settings = ("preset=grpo", "algorithm.use_kl_in_reward=true")
    code, table, text = planned(root, "--processes", "8", "--memory", "80", model(tmp_path, QWEN_7B), *OF_7B, *settings)
    assert code == 0, text
    assert "it fits" in text
    phases = re.search(r"^ +(gen.*)$", text, re.M)
    assert phases[1].split() == ["gen", "old_log_prob", "ref", "update"]
    share = 4 * WEIGHTS_7B / 8 / GIB  # float32
    for name, expected in (("policy: weights", share), ("policy: optimizer", 2 * share), ("reference: weights", share)):
        assert table[name] == pytest.approx([expected] * 4, abs=0.01), name
    assert table["policy: gradients"] == pytest.approx([0, 0, 0, share], abs=0.01)
    assert table["rollout: a copy of the weights"] == pytest.approx([8 * share] * 4, abs=0.01)
    # 16 responses of 64 tokens, keys and values of 28 layers in bfloat16, and one layer that moves.
    cache = 16 * 64 * 2 * 28 * 4 * 128 * 2 / GIB
    assert table["keys and values"] == pytest.approx([cache * 29 / 28, 0, 0, 0], abs=0.01)
    # At the end of a backward pass: the embeddings, their gradient, and this in float32 to be sent.
    assert table["gathered"][3] == pytest.approx(152064 * 3584 * (2 + 2 + 4) / GIB, rel=0.01)
    parts = [row for name, row in table.items() if name not in ("all", "besides, in CPU memory")]
    assert table["all"] == pytest.approx([sum(column) for column in zip(*parts, strict=True)], abs=0.05)


def test_what_does_not_fit_says_what_to_change_and_then_it_fits(made: Maker, tmp_path: Path) -> None:
    root = made(EVERYTHING).root
    room = ("--memory", "1.5", "local.device=cuda", "data.train_batch_size=64", "data.max_response_length=512")
    sizes = ("actor_rollout_ref.rollout.n=8", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64")
    more = ("actor_rollout_ref.actor.ppo_mini_batch_size=64", "local.max_logits_mb=null")
    checkpointing = "actor_rollout_ref.model.enable_gradient_checkpointing"
    arguments = [*room, *sizes, *more, model(tmp_path, SMALL), f"{checkpointing}=false"]
    code, _, text = planned(root, *arguments)
    assert code == 1, text
    changes = re.search(r"^change: (.*)$", text, re.M)
    assert changes is not None, text
    keys = {change.partition("=")[0] for change in changes[1].split()}
    assert checkpointing in keys
    kept = [one for one in arguments if one.partition("=")[0] not in keys]
    code, _, text = planned(root, *kept, *changes[1].split())
    assert code == 0, text


NO_PLAN = (
    (["actor_rollout_ref.model.path=./nothing"], "no config.json of ./nothing"),
    (["--memory", "0"], "memory of a device is 0"),
    (["local.sed=1"], "unknown key"),
    (["local.device=cuda"], "--memory 80"),
)


def test_what_no_plan_can_be_made_of_is_said(made: Maker) -> None:
    root = made(EVERYTHING).root
    for arguments, message in NO_PLAN:
        done = inside(root, "plan", *arguments)
        assert (done.returncode, message in done.stderr, "hint: " in done.stderr) == (2, True, True), done.stderr
        assert "Traceback" not in done.stderr
