"""A fork's estimators and losses become hooks, which compute what the fork computes, bit for bit."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.adopt.findings import Copy
from extractor.importers.adopt.fork_code import ForkCode
from extractor.importers.adopt.method_states import Runs, list_trainers
from extractor.values.fingerprint import fingerprint_statement
from tests.importers.adopt.forks import ACTOR, ALGOS, CONFIG, TRAINER, Fork

ESTIMATOR = '''


def helper_1(scores, texts):
    return scores * torch.tensor([1.0 + len(text) for text in texts])[:, None]


def compute_mine(rewards, mask, texts, share, step, entropys):
    """Weighs a response by its text. Nothing
    else. Args: none"""
    return verl_F.masked_mean(helper_1(rewards, texts), mask) * share * step * mask + entropys, rewards
'''
DATASET = "utils/dataset/rl_dataset.py"
MANAGER = """from verl.workers.reward_manager import register
from verl.workers.reward_manager.naive import NaiveRewardManager


@register("own_manager")
class Own(NaiveRewardManager):
    def __call__(self, data, return_dict=False):
        return super().__call__(data, return_dict)
"""
BRANCH = """    elif adv_estimator == "mine":
        data.batch["advantages"], data.batch["returns"] = core_algos.compute_mine(
            data.batch["token_level_rewards"], data.batch["response_mask"], data.non_tensor_batch["texts"], share, step,
            entropys,
        )
    else:
"""

# What a project makes of a fork's loop, for two steps.
TWO_STEPS = """
import torch
from types import SimpleNamespace
from omegaconf import OmegaConf
import toy.custom.algorithms
from toy import hooks
from toy.vendored.protocol import DataProto
scores = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
batch = DataProto.from_dict({"responses": torch.zeros(2, 3, dtype=torch.long), "token_level_scores": scores})
config = OmegaConf.create({"algorithm": {"adv_estimator": "mine"}})
now = hooks.AtHand(batch, config, 1, 2, None, SimpleNamespace())
for _ in range(2):
    hooks.prepare("advantages", now)
    print(batch.batch["bonus"].sum().item(), now.kept.limit)
    hooks.prepare("update", now)
"""


@pytest.fixture
def fork(fork_0_5_0: Fork) -> Fork:
    """A fork with an estimator that its compute_advantage chooses, and a setting for it."""
    fork = fork_0_5_0
    fork.append(ALGOS, ESTIMATOR)
    last, call = "AlgoConfig] = None,\n", "                            config=self.config.algorithm,\n"
    head, name, rest = fork.read(TRAINER).partition("def compute_advantage(")
    more = f"{call}{' ' * 28}share=self.config.algorithm.mine_share,\n"
    for old, new in (
        (last, f"{last}    share=1.0,\n    step=0,\n    entropys=None,\n"),
        ("    else:\n", BRANCH),
        (call, f"{more}{' ' * 28}step=self.global_steps, entropys=entropys,\n"),
    ):
        assert old in rest
        rest = rest.replace(old, new, 1)
    fork.write(TRAINER, f"{head}{name}{rest}")
    (fork.top / "mine.yaml").write_text("algorithm:\n  mine_share: 0.25\n")
    return fork


def code_of(fork: Fork) -> ForkCode:
    return ForkCode(Copy(fork.root, fork.top, (), (), {}, {}, frozenset(), None))


def _add_other(fork: Fork) -> None:
    """Give the fork a second estimator, in the branch above."""
    other = BRANCH.replace("mine", "other").replace("texts", "uid").replace("share, step,", "1.0, 1,")
    other = other.replace("            entropys,\n", "").removesuffix("    else:\n")
    shared = "\n\nSHARED: float = 2.0\n\n\nclass Shared:\n    value = SHARED\n\n\n"
    body = "    return rewards, rewards * SHARED * Shared.value\n"
    fork.append(ALGOS, f"{shared}def compute_other(rewards, mask, uid, share, step):\n{body}")
    fork.write(ALGOS, fork.read(ALGOS).replace("* share * step", "* share * step * SHARED * Shared.value"))
    fork.write(TRAINER, fork.read(TRAINER).replace(BRANCH, other + BRANCH))


def test_a_branch_becomes_a_hook_with_the_forks_numbers(run: Any, tmp_path: Path, fork: Fork) -> None:
    project = tmp_path / "toy"
    _add_other(fork)
    fork.write("workers/reward_manager/own.py", MANAGER)
    fork.write("workers/reward_manager/second.py", MANAGER.replace("own_", "second_").replace("Own", "Second"))
    result = run("adopt", fork.top, project, "--json", "--offline")
    assert result.code == 0, result.err
    _, method, *made = json.loads(result.out)["methods"]
    names = [f"reward_model.reward_manager={name}_manager" for name in ("own", "second")]
    assert [(item["setting"], item["runs"]) for item in made] == [(name, "runs") for name in names]
    texts = "".join(file.read_text() for file in (project / "toy/custom").rglob("*.py"))
    assert "class Own(NaiveRewardManager)" in texts
    assert "class Second(NaiveRewardManager)" in texts
    assert (method["name"], method["runs"]) == ("mine", "runs")
    assert method["why"] == "it reads texts of your data"
    text = (project / "toy/custom/algorithms.py").read_text()
    assert '@register_adv_est("mine")' in text
    assert "def helper_1(" in text
    assert "step=now.step" in text
    assert "recompute_old_log_probs: true" in (project / "config/ppo_trainer.yaml").read_text()
    assert "mine_share: 0.25" in (project / "config/fork/keys.yaml").read_text()
    checked = run("verify", project, "--fork", fork.top, "--json", "--offline")
    assert checked.code == 0, checked.out
    assert "2 of 2 equal bit for bit" in checked.out
    hook = project / "toy/custom/algorithms.py"
    hook.write_text(text.replace("1.0 + len(text)", "2.0 + len(text)"))
    assert "1 of 2 equal bit for bit" in run("verify", project, "--fork", fork.top, "--offline").out


def test_a_method_is_grafted_into_a_project_of_another_release(run: Any, tmp_path: Path, fork: Fork) -> None:
    project = tmp_path / "toy"
    assert run("new", project).code == 0
    listed = run("graft", fork.top, "--offline").out
    assert "advantage estimator mine" in listed
    assert "Weighs a response by its text.\n" in listed
    graft = ("graft", f"{fork.top}::compute_mine", project, "--offline")
    made = run(*graft)
    assert made.code == 0, made.err
    assert "step_hooks" in (project / "vextract.lock").read_text()
    assert "algorithm.adv_estimator=mine" in made.out
    assert run("verify", project, "--fork", fork.top, "--offline").code == 0
    assert run("graft", f"{fork.top}::nothing", project, "--offline").code == 2
    taken = "token_level_rewards, response_mask, anchor, config=None"
    fork.append(ALGOS, f'\n\n@register_adv_est("tied")\ndef compute_tied({taken}):\n    return anchor, anchor\n')
    assert "the batch has to have anchor" in run("graft", f"{fork.top}::tied", project, "--offline").err


def test_what_the_loop_computes_around_advantages_comes_along(run: Any, tmp_path: Path, fork: Fork) -> None:
    fork.change(ALGOS, "* share * step * mask", "* share * step * mask * bonus + limit")
    fork.change(ALGOS, "def compute_mine(rewards, mask, ", "def compute_mine(bonus, limit, rewards, mask, ")
    fork.change(
        TRAINER, "core_algos.compute_mine(\n", 'core_algos.compute_mine(\n            data.batch["bonus"], limit,\n'
    )
    fork.change(TRAINER, "    share=1.0,\n", "    share=1.0,\n    limit=0,\n")
    fork.into(TRAINER, "__init__", "self.factor = config.algorithm.get('factor', 1.0)")
    head, name, rest = fork.read(TRAINER).partition("                        norm_adv_by_std_in_grpo = ")
    indent = " " * 24
    lines = ["limit = 0", 'length = batch.batch["responses"].shape[-1]', 'if self.config.algorithm.get("odd", True):']
    lines += [
        "    for _ in range(length):",
        "        limit += 1",
        'batch.batch["bonus"] = reward_tensor * self.factor + limit',
    ]
    rest = rest.replace("config=self.config.algorithm,\n", "config=self.config.algorithm, limit=limit,\n", 1)
    rest = rest.replace(f"\n{indent})\n", f"\n{indent})\n{indent}self.factor = 2 * self.factor\n", 1)
    fork.write(TRAINER, "".join([head, *(f"{indent}{line}\n" for line in lines), name, rest]))
    result = run("adopt", fork.top, tmp_path / "toy", "--offline", "--json")
    (method,) = json.loads(result.out)["methods"]
    assert (method["runs"], method["why"]) == ("runs", "it reads texts of your data")
    command = [sys.executable, "-c", TWO_STEPS]
    found = subprocess.run(command, cwd=tmp_path / "toy", capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["21.0", "3", "24.0", "3"], found.stderr
    fork.change(TRAINER, "limit = 0\n", "limit = self.actor_rollout_wg.ask()\n")
    (method,) = json.loads(run("adopt", fork.top, tmp_path / "other/toy", "--offline", "--json").out)["methods"]
    assert method["runs"] == "runs in part"


ROWS = """
import torch
from types import SimpleNamespace
from omegaconf import OmegaConf
import toy.custom.algorithms
from toy import hooks
from toy.vendored.protocol import DataProto
config = OmegaConf.create({"algorithm": {"adv_estimator": "mine", "use_kl_in_reward": False}})
for scores in ([0.0, 1.0, 2.0], [0.0, 0.0, 0.0]):
    columns = {f"token_level_{name}": torch.tensor(scores)[:, None] for name in ("scores", "rewards")}
    batch = DataProto.from_dict({"responses": torch.zeros(3, 1, dtype=torch.long), **columns})
    left = hooks.prepare("advantages", hooks.AtHand(batch, config, 1, 2, None, SimpleNamespace()))
    print(len(batch), left.batch["token_level_rewards"].flatten().tolist())
"""


def test_rows_that_the_loop_leaves_out_are_left_out(run: Any, tmp_path: Path, fork: Fork) -> None:
    head, name, rest = fork.read(TRAINER).partition("                        norm_adv_by_std_in_grpo = ")
    body = ["try:", "    keep = reward_tensor.sum(-1) > 0", "except TypeError:", "    raise"]
    body += ["if not keep.any():", "    continue", "if self.config.trainer.asks:"]
    body += ["    batch = self.actor_rollout_wg.ask(batch)", "batch = batch.select_idxs(keep)"]
    fork.write(TRAINER, "".join([head, *(f"{' ' * 24}{line}\n" for line in body), name, rest]))
    fork.change(CONFIG, "trainer:\n", "trainer:\n  asks: False\n")
    result = run("adopt", fork.top, tmp_path / "toy", "--offline", "--json")
    assert [item["runs"] for item in json.loads(result.out)["methods"]] == ["runs"], result.out
    found = subprocess.run(
        [sys.executable, "-c", ROWS], cwd=tmp_path / "toy", capture_output=True, text=True, check=False
    )
    assert found.stdout == "3 [1.0, 2.0]\n3 []\n", found.stderr
    fork.change(CONFIG, "asks: False", "asks: True")
    _, fit = json.loads(run("adopt", fork.top, tmp_path / "other/toy", "--offline", "--json").out)["methods"]
    assert "batch = self.actor_rollout_wg.ask(batch)" in fit["why"]


def test_without_its_method_a_project_is_made_with_exit_code_1(run: Any, tmp_path: Path, fork: Fork) -> None:
    helper = "def helper_1(scores, texts):\n"
    fork.change(ALGOS, helper, f"{helper}    import ray\n    ray.get(0)\n")
    fork.append(ALGOS, "\n\ndef compute_policy_loss_bare(old_log_prob, log_prob, advantages):\n    return -log_prob\n")
    fork.append(ALGOS, "\n\ndef compute_policy_loss_that_nothing_calls(old_log_prob):\n    return old_log_prob\n")
    fork.write("trainer/other.py", "from verl.trainer.ppo.core_algos import compute_policy_loss_bare\n")
    asks = '"asked" in data.meta_info and data.meta_info["asked"]'
    fork.into(
        ACTOR, "compute_log_prob", f'is_mine = data.meta_info["is_mine"], {asks}  # and no data.meta_info["other"]'
    )
    fork.into(TRAINER, "fit", 'flags = {"is_mine": 1, "other": 2, "asked": 3}')
    result = run("adopt", fork.top, tmp_path / "toy", "--offline")
    assert result.code == 1
    assert "policy loss bare is parked (it returns a loss per token" in result.out
    assert "edit DataParallelPPOActor runs in part (it reads is_mine, which only your own loops write" in result.out
    assert result.out.startswith("your method is parked: mine")
    assert ", without your method" in result.out
    assert "policy loss that_nothing_calls" not in result.out


def test_a_loss_reads_columns_and_the_entropy_of_its_micro_batch(run: Any, tmp_path: Path, fork_0_6_1: Fork) -> None:
    fork, project = fork_0_6_1, tmp_path / "toy"
    taken = "old_log_prob, log_prob, advantages, response_mask, scores, entropy, config=None"
    body = "    return -(log_prob * scores * entropy * response_mask).mean(), {}\n"
    fork.append(ALGOS, f'\n\n@register_policy_loss("seeing")\ndef compute_policy_loss_seeing({taken}):\n{body}')
    call = "_, entropy = 0, 0\n    entropy, log_prob = self._forward_micro_batch(data)\n    policy_loss_fn("
    call += '0, log_prob, 0, 0, scores=data["token_level_scores"], entropy=entropy)\n'
    fork.append(ACTOR, f"\n\ndef update_seeing(self, data, policy_loss_fn):\n    {call}")
    fork.into("trainer/ppo/metric_utils.py", "compute_data_metrics", 'batch.batch["only_there"]')
    fork.into(TRAINER, "fit", 'batch.batch["only_there"] = 1')
    result = run("adopt", fork.top, project, "--offline", "--json")
    report = json.loads(result.out)
    assert {item["name"]: item["runs"] for item in report["methods"]} == {"seeing": "runs"}
    (metrics,) = [item for item in report["edits"] if item["symbol"] == "compute_data_metrics"]
    assert metrics["why"] == "it reads only_there, which only your own loops write"
    assert report["options"]["features"] == ["loss_columns", "step_hooks"]
    hooks = (project / "toy/custom/algorithms.py").read_text()
    assert "from toy.workers.loss_columns import of_pass\n" in hooks
    assert 'entropy=now["entropy"]' in hooks
    checked = run("verify", project, "--fork", fork.top, "--offline")
    assert "1 of 1 equal bit for bit" in checked.out, checked.out
    assert run("new", tmp_path / "newer/toy", "--verl", "0.9.1").code == 0
    graft = ("graft", f"{fork.top}::seeing", tmp_path / "newer/toy", "--offline")
    assert run(*graft).code == 0
    assert "calculate_entropy: true" in (tmp_path / "newer/toy/config/actor/dp_actor.yaml").read_text()


INLINE = """
                    weights = model_inputs["token_level_scores"] * self.config.mine.share
                    def capped(limit): return torch.minimum(limit, advantages.abs())
                    with torch.no_grad():
                        gain = capped(0.4 * entropy)
                    advantages = advantages + gain * weights
"""
# What the fork's and the project's losses give for one pass: their gradients have to be equal.
ONE_PASS = """
import torch
from types import SimpleNamespace
import toy.custom.algorithms
from toy.registries import get_policy_loss_fn
from toy.workers.loss_columns import hand_over, of_update
from toy.vendored.algorithms.core_algos import agg_loss, compute_policy_loss_vanilla
from toy.vendored.workers.config.actor import ActorConfig
torch.manual_seed(0)
old, new, advantages, weights = torch.randn(4, 2, 3).unbind()
new.requires_grad_()
entropy, mask = -new * new.exp(), torch.ones(2, 3)
given = {"strategy": "fsdp", "rollout_n": 1, "ppo_micro_batch_size_per_gpu": 1, "mine": {"share": 2.0}}
more = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "entropy_coeff": 0.1}
more["mine"] = ActorConfig(**given).mine
class Config(SimpleNamespace):
    get = lambda self, name, default=None: getattr(self, name, default)
config = Config(**more, use_kl_loss=False, tis_imp_ratio_cap=0, policy_loss=Config(loss_mode="vanilla_fork"))
of_update.set({})
hand_over({"token_level_scores": weights}, entropy)
loss, *_ = get_policy_loss_fn("vanilla_fork")(old, new, advantages, mask, "token-mean", config)
shaped = advantages + torch.minimum(0.4 * entropy, advantages.abs()).detach() * weights * 2.0
wanted, *_ = compute_policy_loss_vanilla(old, new, shaped, mask, "token-mean", config)
gradients = [torch.autograd.grad(one, new, retain_graph=True)[0] for one in (loss, OWN wanted)]
assert torch.allclose(*gradients), gradients
"""
# What the fork's forward pass makes of the logits of a row that has a token of padding.
OF_LOGITS = """
import torch
from types import SimpleNamespace
import toy.custom.algorithms
from toy.workers.loss_columns import columns_of_logits
logits = torch.randn(2, 4, 5)
rows = {"responses": torch.zeros(2, 2, dtype=torch.int64), "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])}
config = SimpleNamespace(mine=SimpleNamespace(share=2.0))
peak = logits.amax(-1)[:, 1:3]
peak[1, 1] = 0
assert torch.equal(columns_of_logits(logits, rows, config)["peak_of_logits"], peak)
"""


def test_what_an_actor_computes_around_its_loss_comes_along(run: Any, tmp_path: Path, fork_0_6_1: Fork) -> None:
    fork, term = fork_0_6_1, "policy_loss = pg_loss - entropy_loss * entropy_coeff"
    fork.change(ACTOR, '                    loss_mode = self.config.policy_loss.get("loss_mode"', f"{INLINE}LOSS_MODE")
    fork.change(ACTOR, "LOSS_MODE", '                    loss_mode = self.config.policy_loss.get("loss_mode"')
    fork.append("trainer/config/actor/dp_actor.yaml", "mine:\n  share: 2.0\n")
    fork.into(ACTOR, "_optimizer_step", "import ray")  # so that the class has no place
    for project, own in (("a/toy", ""), ("b/toy", "-0.1 * agg_loss(entropy, mask, 'token-mean') +")):
        report = json.loads(run("adopt", fork.top, tmp_path / project, "--offline", "--json").out)
        (method,) = report["methods"]
        assert (method["name"], method["runs"]) == ("vanilla", "runs"), method
        code = [sys.executable, "-c", ONE_PASS.replace("OWN", own)]
        done = subprocess.run(code, cwd=tmp_path / project, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        fork.write(ACTOR, fork.read(ACTOR).replace(term, term.replace(" -", " - 2 *")))
    fork.change(ACTOR, "entropy, log_prob = self._forward", "entropy, log_prob, peak = self._forward")
    fork.change(ACTOR, "gain * weights", "gain * weights * peak * self.share")
    fork.into(ACTOR, "__init__", "self.share = self.config.mine.share")
    fork.change(ACTOR, "return entropy, log_probs\n", "return entropy, log_probs, peak\n")
    line = "                full_log_probs = pad_input(\n"
    padded = "peak = pad_input(logits_rmpad.amax(-1, keepdim=True), indices, batch_size, seqlen)"
    cut = "peak = peak.squeeze(-1)[:, -response_length - 1 : -1]"
    fork.change(ACTOR, line, f"                {padded}\n                {cut}\n{line}")
    for why in ("", "its actor's forward pass has peak"):
        report = json.loads(run("adopt", fork.top, tmp_path / f"c{why}/toy", "--offline", "--json").out)
        assert [item["why"] for item in report["methods"]] == [why]
        fork.write(ACTOR, fork.read(ACTOR).replace("pad_input(logits_rmpad.amax", "pad_input(output.mine.amax"))
    code = [sys.executable, "-c", OF_LOGITS]
    done = subprocess.run(code, cwd=tmp_path / "c/toy", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_dataset_of_keywords_is_made_of_the_config(run: Any, tmp_path: Path, fork_0_6_1: Fork) -> None:
    fork = fork_0_6_1
    taken = "self, parquet_files, tokenizer, prompt_key='prompt', style='', size=8"
    body = "        self.rows = [{'raw_prompt_ids': [0], 'style': style}] * size\n"
    fork.write(DATASET, f"class RLHFDataset:\n    def __init__({taken}):\n{body}")
    call = "parquet_files=self.config.data.train_files, tokenizer=self.tokenizer, size=count()"
    call += ", style=self.config.data.mine"
    fork.append(TRAINER, f"\n\ndef make_data(self):\n    return RLHFDataset({call})\n")
    fork.append("trainer/config/data/legacy_data.yaml", "mine: odd\n")
    report = json.loads(run("adopt", fork.top, tmp_path / "toy", "--offline", "--json").out)
    (dataset,) = [item for item in report["methods"] if item["kind"] == "dataset"]
    assert dataset["setting"] == "data.custom_cls.path=toy/custom/verl_dataset.py data.custom_cls.name=ForkDataset"
    assert (dataset["runs"], dataset["why"]) == ("runs in part", "its trainer computes size for it: at their defaults")
    assert "style=config.mine," in (tmp_path / "toy/toy/custom/verl_dataset.py").read_text()
    assert "mine: odd" in (tmp_path / "toy/config/fork/keys.yaml").read_text()
    assert report["options"]["features"] == ["dataset_classes"]


def test_enums_are_united_and_arguments_of_one_side_go_by_name(run: Any, tmp_path: Path, fork_0_6_1: Fork) -> None:
    fork, project = fork_0_6_1, tmp_path / "toy"
    text = fork.read(ALGOS)
    text, count = re.subn(r"(?m)^    RLOO_VECTORIZED = .*$", '    MINE = "mine"\n    OURS = "ours"', text)
    (lost,) = [
        node
        for node in ast.parse(text).body
        if getattr(node, "name", "") == "compute_rloo_vectorized_outcome_advantage"
    ]
    lines = text.split("\n")
    del lines[lost.decorator_list[0].lineno - 1 : lost.end_lineno]  # type: ignore[attr-defined]
    head, name, rest = "\n".join(lines).partition("def compute_grpo_outcome_advantage(")
    rest = re.sub(r"    norm_adv_by_std_in_grpo: .*\n", "", rest, count=1).replace(
        "if norm_adv_by_std_in_grpo", "if True", 1
    )
    head, name, rest = f"{head}{name}{rest}".partition("def compute_rloo_outcome_advantage(")
    rest = rest.replace("    config: ", "    factor: float = 2.0,\n    config: ", 1)
    fork.write(ALGOS, f"{head}{name}{rest.replace('return scores, scores', 'return scores * factor, scores', 1)}")
    body = "    return token_level_rewards * response_mask, token_level_rewards\n"
    for member in ("mine", "ours"):
        taken = f"def compute_{member}(token_level_rewards, response_mask, config=None, **kwargs):\n{body}"
        fork.append(ALGOS, f"\n\n@register_adv_est(AdvantageEstimator.{member.upper()})\n{taken}")
    line = r"            norm_adv_by_std_in_grpo=norm_adv_by_std_in_grpo,\n"
    fork.write(TRAINER, re.sub(line, "", fork.read(TRAINER)))
    assert count == 1
    report = json.loads(run("adopt", fork.top, project, "--offline", "--json").out)
    assert {item["name"]: item["runs"] for item in report["methods"]} == dict.fromkeys(
        ("grpo", "rloo", "mine", "ours"), "runs"
    )
    algos = (project / "toy/vendored/algorithms/core_algos.py").read_text()
    assert all(f"    {member} = " in algos for member in ("MINE", "OURS", "RLOO_VECTORIZED"))
    assert "4 of 4 equal bit for bit" in run("verify", project, "--fork", fork.top, "--offline").out


def test_a_trainer_of_the_forks_is_said_to_be_parked(fork: Fork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream's recipes are told by what they are, wherever a fork has put them."""
    for recipe, name in (("own", "Mine"), ("copied", "RayDAPOTrainer")):
        folder = fork.top / "recipe" / recipe
        folder.mkdir(parents=True)
        text = f"class {name}(RayPPOTrainer):\n    pass\n"
        (folder / "trainer.py").write_text(f"from verl.trainer.ppo.ray_trainer import RayPPOTrainer\n\n\n{text}")
    upstreams = {fingerprint_statement(ast.parse(text).body[0])}
    monkeypatch.setattr("extractor.importers.adopt.method_states.load_upstream_parts", lambda: upstreams)
    found = list(list_trainers(code_of(fork)))
    assert [(item.name, item.where, item.runs) for item in found] == [("Mine", "recipe/own/trainer.py", Runs.NO)]
