"""Losses and estimators of a fork's own in a project that calls them otherwise than the fork's trainer does."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from extractor.importers.runs.files.own_call import settings_read
from extractor.importers.runs.taken_over import registered
from extractor.importers.runs.taken_over.recipient import Recipient, Taken
from extractor.values.tree import File, FileKind, Tree
from tests.importers.conftest import vextract, written
from tests.importers.test_copies import checkout
from tests.releases import NEWEST, source_of

CORE = "verl/trainer/ppo/core_algos.py"
PROJECTS = """from __future__ import annotations

FOUND = {{}}


def register_policy_loss(name):
    def decorated(function):
        FOUND[name] = function
        return function
    return decorated


def register_adv_est(name):
    return register_policy_loss(name)


@register_policy_loss("vanilla")
def vanilla(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config{more}):
    return log_prob


@register_adv_est("grpo")
def grpo(token_level_rewards, response_mask, config=None, index=None):
    return token_level_rewards, token_level_rewards
"""
NEWER = PROJECTS.format(more=", rollout_is_weights=None) -> tuple[torch.Tensor, dict[str, Any]]").replace("]])", "]]")
OLDER = PROJECTS.format(more="")
OF_A_FORK = (
    OLDER
    + '''

@register_policy_loss("mine")
def mine(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None):
    """Lose."""
    scale = config.scale * config.policy_loss.get("share", 1.0) * config["third"].whole
    return log_prob * scale, 0.5, 0.25, 0.125


@register_adv_est("plain")
def plain(token_level_rewards, response_mask):
    return token_level_rewards, response_mask
'''
)
# It calls the fork's own version of what the project has under the same name, and expects the run's whole config.
WHOLE = (
    OLDER.replace("return token_level_rewards, token_level_rewards", "return token_level_rewards * 5, 0")
    + """

@register_adv_est("careful")
def careful(token_level_rewards, response_mask, config=None):
    return grpo(token_level_rewards, response_mask)[0], config.algorithm.get("other", 7)
"""
)
OWN = {
    "actor_rollout_ref.actor.scale": 3.0,
    "actor_rollout_ref.actor.policy_loss.share": 0.5,
    "actor_rollout_ref.actor.third.whole": 2.0,
    "algorithm.other": 1,
}


@dataclass(frozen=True)
class Actor:
    """As verl's configs are: nothing in one is changed, and `[]` finds what `.` does."""

    policy_loss: dict[str, Any]
    clip_ratio: float = 0.2

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def taken(folder: Path, core: str, settings: dict[str, Any], fork: str = OF_A_FORK) -> Taken:
    hooks = [File(f"pkg/custom/{name}.py", FileKind.HOOK, b"") for name in ("algorithms", "__init__")]
    tree = Tree.of([*hooks, File("pkg/vendored/core_algos.py", FileKind.VENDORED, core.encode(), CORE)])
    places = checkout(folder / "fork", {CORE: fork})
    return registered.take(Recipient(tree, "pkg", source_of(NEWEST[-1]), places, settings, NEWEST[-1]))


def upgraded(tree: Tree, core: str) -> Tree:
    """Give a project the algorithms of another release; its hooks stay as they are."""
    return Tree.of(replace(file, data=core.encode()) if file.path.endswith("core_algos.py") else file for file in tree)


def found(project: Path, tree: Tree) -> Any:
    written(tree, project)
    (project / "config").mkdir(exist_ok=True)
    (project / "config/unknown.yaml").write_text(yaml.safe_dump(OWN))
    importlib.import_module("pkg.custom.algorithms")
    return importlib.import_module("pkg.vendored.core_algos").FOUND


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("at_first", [NEWER, OLDER])
@pytest.mark.parametrize("core", [NEWER, OLDER])
def test_a_loss_of_an_earlier_release_has_its_own_arguments_settings_and_result(
    tmp_path: Path, pkg: Path, core: str, at_first: str
) -> None:
    """Whatever release the project was made for, and has been upgraded to since."""
    made = taken(tmp_path, at_first, {registered.LOSS: "mine"})
    loss = found(pkg, upgraded(made.tree, core))["mine"]
    config = Actor({"loss_mode": "mine"})
    given = {"old_log_prob": 0, "log_prob": 2.0, "advantages": 0, "response_mask": 0, "loss_agg_mode": "x"}
    newer = {"rollout_is_weights": None} if core is NEWER else {}
    for _ in range(2):
        result = loss(**given, **newer, config=config)
        assert result[0] == 2.0 * 3.0 * 0.5 * 2.0
    assert config == Actor({"loss_mode": "mine"})  # the project's is as it was
    if core is OLDER:
        assert result[1:] == (0.5, 0.25, 0.125)
        return
    assert result[1] == {"actor/pg_clipfrac": 0.5, "actor/ppo_kl": 0.25, "actor/pg_clipfrac_lower": 0.125}
    with pytest.raises(ValueError, match="mine takes no rollout_is_weights"):
        loss(**given, rollout_is_weights=1.0, config=config)
    below = ("scale", "policy_loss.share", "policy_loss", "third")
    assert set(made.reads) == {f"actor_rollout_ref.actor.{name}" for name in below}


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("more", ["", "0.0, 0.25, 0.0, "])
def test_a_loss_of_a_later_release_returns_what_an_earlier_one_takes(tmp_path: Path, pkg: Path, more: str) -> None:
    later = OF_A_FORK.replace("0.5, 0.25, 0.125", more + '{"actor/ppo_kl": 0.25, "actor/own": 1.0}')
    loss = found(pkg, taken(tmp_path, OLDER, {registered.LOSS: "mine"}, later).tree)["mine"]
    config = Actor({"loss_mode": "mine"})
    given = {"old_log_prob": 0, "log_prob": 2.0, "advantages": 0, "response_mask": 0, "loss_agg_mode": "x"}
    _, *measured = loss(**given, config=config)
    assert [value.item() for value in measured] == [0.0, 0.25, 0.0]


# What a loss divides by: the tokens of its pass, as before verl 0.8.0, or those of the batch.
OF_A_PASS, OF_THE_BATCH = "response_mask.sum()", "config.global_batch_info['batch_num_tokens'] * config.scale"
DIVIDES = """
import torch


@register_policy_loss("mine")
def mine(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config=None, rollout_is_weights=None):
    return -(log_prob * advantages * response_mask).sum() / {by}, {{}}
"""


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("by", [OF_A_PASS, OF_THE_BATCH])
def test_what_a_loss_is_of_each_pass_adds_up_to_what_it_is_of_the_batch(tmp_path: Path, pkg: Path, by: str) -> None:
    torch = pytest.importorskip("torch")
    made = taken(tmp_path, OLDER, {registered.LOSS: "mine"}, OLDER + DIVIDES.format(by=by))
    loss = found(pkg, upgraded(made.tree, NEWER))["mine"]
    config = SimpleNamespace(global_batch_info={})
    rows = torch.arange(12.0).reshape(6, 2)
    given = {"old_log_prob": rows, "log_prob": rows.requires_grad_(), "advantages": rows.detach() - 4}
    given |= {"response_mask": torch.ones(6, 2)}

    def gradient(size: int, steps: int = 1) -> Any:
        rows.grad = None
        for start in range(0, 6, size):
            config.global_batch_info.update(dp_size=1, batch_num_tokens=12 * steps, global_batch_size=6)
            part = {name: value[start : start + size] for name, value in given.items()}
            loss(**part, loss_agg_mode="token-mean", config=config)[0].backward()
        return rows.grad

    whole = gradient(6)
    assert whole.abs().sum() > 0
    assert torch.allclose(gradient(2), whole)
    assert torch.allclose(gradient(1), whole)
    if by == OF_THE_BATCH:
        assert torch.allclose(gradient(6, steps=2), whole / 2), "what is noted of a later batch counts"


@pytest.mark.usefixtures("verl")
def test_an_estimator_gets_what_it_takes(tmp_path: Path, pkg: Path) -> None:
    made = taken(tmp_path, NEWER, {registered.ESTIMATOR: "plain"})
    assert found(pkg, made.tree)["plain"](token_level_rewards=1, response_mask=2, config=None, index=[0]) == (1, 2)


@pytest.mark.usefixtures("verl")
def test_what_an_estimator_says_of_whole_responses_holds_for_each_token(tmp_path: Path, pkg: Path) -> None:
    """verl's trainer takes (bs, response_length) alone; a loss of a fork's may take (bs,) as well."""
    torch = pytest.importorskip("torch")
    fork = OF_A_FORK.replace(
        "return token_level_rewards, response_mask", "return token_level_rewards.sum(-1), response_mask"
    )
    made = taken(tmp_path, NEWER, {registered.ESTIMATOR: "plain"}, fork)
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    rewards = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
    advantages, returns = found(pkg, made.tree)["plain"](token_level_rewards=rewards, response_mask=mask, config=None)
    assert advantages.tolist() == [[2.0, 2.0, 0.0], [3.0, 0.0, 0.0]]
    assert returns is mask


@pytest.mark.usefixtures("verl")
def test_an_estimator_may_expect_the_whole_config_and_call_the_forks_own_of_another_name(
    tmp_path: Path, pkg: Path
) -> None:
    made = taken(tmp_path, NEWER, {registered.ESTIMATOR: "careful"}, WHOLE)
    assert set(made.reads) == {"algorithm.other"}
    registry = found(pkg, made.tree)
    given = {"token_level_rewards": 1, "response_mask": 2, "index": [0], "config": OmegaConf.create({"gamma": 1})}
    assert registry["careful"](**given) == (5, 1)
    assert registry["grpo"](1, 2) == (1, 1)  # the project's own


@pytest.mark.usefixtures("verl")
def test_what_fits_is_copied_as_it_is_and_what_nobody_gives_is_named(tmp_path: Path) -> None:
    # (An estimator: what is taken of a loss changes with the releases.)
    fits = OF_A_FORK.replace(
        "response_mask):\n    return token_level_rewards, response", "response_mask, **more):\n    return 1, response"
    )
    made = taken(tmp_path, NEWER, {registered.ESTIMATOR: "plain"}, fits)
    assert not [file.path for file in made.tree if file.path.endswith("of_the_run.py")]
    asks = OF_A_FORK.replace("def mine(old_log_prob,", "def mine(turn_index, old_log_prob,")
    said = [
        item.why for item in taken(tmp_path, NEWER, {registered.LOSS: "mine"}, asks).remarks if item.what == "to do"
    ]
    assert said == ["pkg/custom/verl_algorithms.py: mine takes turn_index, which only its own trainer hands over"]
    may = OF_A_FORK.replace(
        "(token_level_rewards, response_mask)", "(token_level_rewards, response_mask, *, other=None)"
    )
    said = [item.why for item in taken(tmp_path, NEWER, {registered.ESTIMATOR: "plain"}, may).remarks]
    assert "plain may take other, which only its own trainer hands over: None here" in said


# A loss and an estimator that take more than verl passes, and what verl's functions around them have.
TAKES_MORE = (
    OLDER
    + """

@register_policy_loss("mine")
def mine(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None, *,
         ref_log_prob, rollout_log_probs=None, entropy=None, nobody_has=None, scale=1.0):
    return log_prob, {"had": (ref_log_prob, rollout_log_probs, entropy, nobody_has, scale)}


@register_adv_est("plain")
def plain(token_level_rewards, eos_mask, token_entropy, domains, gamma, batch_size=None):
    return eos_mask, token_entropy, domains, gamma, batch_size
"""
)


@pytest.mark.usefixtures("verl")
def test_what_verl_has_at_hand_is_handed_over_where_it_is_of_the_same_rows(tmp_path: Path, pkg: Path) -> None:
    import torch

    chosen = {registered.LOSS: "mine", registered.ESTIMATOR: "plain"}
    made = taken(tmp_path, NEWER, chosen, TAKES_MORE)
    assert made.settings == {
        "actor_rollout_ref.actor.calculate_entropy": True,
        "actor_rollout_ref.actor.kl_loss_coef": 0.0,
        "actor_rollout_ref.actor.use_kl_loss": True,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "local.recompute_old_log_probs": True,
    }
    to_do = [item.why for item in made.remarks if item.what == "to do"]
    assert to_do == ["pkg/custom/verl_algorithms.py: plain takes domains, which only its own trainer hands over"]
    registry = found(pkg, made.tree)
    numbers = torch.arange(6.0).reshape(2, 3)
    jagged = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)], layout=torch.jagged)
    weights = torch.nested.nested_tensor([torch.arange(3.0), torch.arange(2.0)], layout=torch.jagged)
    rows = torch.nested.to_padded_tensor(jagged, 0.0)

    def ppo_loss(advantages: Any) -> Any:
        data = {"advantages": advantages, "ref_log_prob": numbers}  # noqa: F841  what the loss is looked for in
        entropy = numbers + 1  # noqa: F841
        given = {"old_log_prob": numbers - 1, "log_prob": numbers, "response_mask": 0, "loss_agg_mode": "x"}
        return registry["mine"](**given, advantages=advantages, config=None, rollout_is_weights=None)

    def forward_step(engines: Any) -> Any:
        micro_batch = {"advantages": jagged, "rollout_log_probs": engines}  # noqa: F841
        return ppo_loss(rows)

    ref, engines, entropy, nobody_has, scale = forward_step(weights)[1]["had"]
    assert (nobody_has, scale) == (None, 1.0)
    assert torch.equal(ref, numbers)
    assert torch.equal(entropy, numbers + 1)
    assert engines.tolist() == [[0, 1, 2], [0, 1, 0]]
    # What is of other rows is not taken: these are the trainer's own, of before the update.
    assert torch.equal(ppo_loss(numbers)[1]["had"][1], numbers - 1)

    def compute_advantage(data: Any, gamma: float) -> Any:
        given = {"token_level_rewards": data.batch["token_level_rewards"], "response_mask": numbers, "index": [0, 1]}
        return registry["plain"](**given, config=None)

    tensors = {"token_level_rewards": rows, "entropys": rows + 2, "response_mask": numbers}
    data = SimpleNamespace(batch=tensors, non_tensor_batch={"domains": ["a", "b"]})
    mask, entropys, domains, gamma, size = compute_advantage(data, 0.9)
    assert torch.equal(mask, numbers)
    assert torch.equal(entropys, rows + 2)
    assert (list(domains), gamma, size) == (["a", "b"], 0.9, None)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'ref_log_prob'"):
        registry["mine"](old_log_prob=0, log_prob=0, advantages=rows, response_mask=0, loss_agg_mode="x", config=None)


def test_settings_that_code_reads() -> None:
    text = (
        "def f(config):\n    config.a.b; config.get('c', 1); config['d']; config.e.get('f'); other.g; config.h.get(x)\n"
    )
    assert settings_read(text, "algorithm") == {f"algorithm.{name}" for name in ("a.b", "a", "c", "d", "e.f", "e", "h")}


@pytest.mark.usefixtures("verl")
def test_a_run_brings_its_loss_and_its_settings_and_an_export_has_both(tmp_path: Path) -> None:
    fork = {CORE: OF_A_FORK, "verl/__init__.py": ""}
    launch = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m"
    chosen = "actor_rollout_ref.actor.policy_loss.loss_mode=mine actor_rollout_ref.actor.scale=3"
    checkout(tmp_path / "fork", {**fork, "run.sh": f"{launch} {chosen}\n"})
    project, out = tmp_path / "own", tmp_path / "out"
    made = vextract("new", project, "--from-verl-run", tmp_path / "fork/run.sh", "--keep-unknown", "--engine", "hf")
    assert made.code == 0, made.err
    copied = (project / "own/custom/verl_algorithms.py").read_text()
    assert '@of_the_run("actor_rollout_ref.actor")\n' in copied
    report = (project / "from_run.md").read_text()
    assert (
        "| `actor_rollout_ref.actor.scale` | `3` | no release of verl has it: config/unknown.yaml keeps it, where"
        in report
    )
    exported = vextract("export", project, "--verl", NEWEST[-1], "-o", out)
    assert exported.code == 0, exported.err
    assert (out / "own/custom/from_run/of_the_run.py").is_file()
    assert "actor_rollout_ref.actor.scale: 3" in (out / "config/unknown.yaml").read_text()
