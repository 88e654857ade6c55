"""Every advantage estimator that can be named runs, and the checks know what it makes of a lone response."""

import json
from pathlib import Path

import pytest

from tests.project.running import check_forked
from tests.project.support import PACKAGE, Configuration, Maker, copy_of
from tests.releases import newest_release

pytestmark = pytest.mark.slow
# Theirs is not the signature that compute_advantage of the same release calls.
FAIL = {"0.7.1": ["optimal_token_baseline", "tir_optimal_token_baseline"]}
# What an estimator makes of four responses of one token, in pairs, and of each alone.
DRIVER = f"""
import copy, json
from pathlib import Path
import numpy as np
import torch
from {PACKAGE} import load_config
from {PACKAGE}.settings.setting_checks import GROUP_ONLY
from {PACKAGE}.training.assembly import COMPARING, check_config
from {PACKAGE}.hooks import import_hooks
from {PACKAGE}.registries import ADV_ESTIMATOR_REGISTRY, compute_advantage
from {PACKAGE}.vendored.protocol import DataProto


def advantages(algorithm, prompts):
    scores, tokens = torch.tensor([1.0, 0.0, 1.0, 1.0])[:, None], torch.ones(4, 1)
    tensors = dict.fromkeys(("token_level_scores", "token_level_rewards"), scores)
    tensors |= dict.fromkeys(("old_log_probs", "rollout_log_probs"), -tokens)
    tensors |= dict.fromkeys(("sum_pi_squared", "values"), 0.5 * tokens)
    if algorithm.adv_estimator == "remax":
        tensors["reward_baselines"] = 0.5 * tokens[:, 0]
    tensors |= dict.fromkeys(("prompts", "response_mask", "responses"), tokens.long())
    tensors["attention_mask"] = tokens.long().expand(-1, 2)
    columns = {{"uid": np.array([*prompts], dtype=object)}}
    columns |= dict.fromkeys(algorithm.get("gdpo_reward_keys") or (), np.array([1.0, 0.0, 1.0, 1.0], dtype=object))
    batch = DataProto.from_dict(tensors, non_tensors=columns)
    settings = {{name: algorithm[name] for name in ("adv_estimator", "gamma", "lam", "norm_adv_by_std_in_grpo")}}
    return compute_advantage(batch, num_repeat=1, config=algorithm, **settings).batch["advantages"]


def of_one(algorithm, compared):
    try:
        alone = advantages(algorithm, "abcd")
    except (AssertionError, ValueError):
        return "none"
    return "same" if torch.allclose(alone, compared) else "other" if alone.any() else "none"


import_hooks()
found, default = {{}}, load_config()  # to compose one takes half a second
for name in [str(getattr(name, "value", name)) for name in ADV_ESTIMATOR_REGISTRY]:
    config = load_config("preset=gdpo") if name == "gdpo" else copy.deepcopy(default)
    config.algorithm.adv_estimator = name
    try:
        if name != "gae":  # the project is without a critic
            check_config(config, 1)
        done = advantages(config.algorithm, "aabb")
        known = "none" if name in GROUP_ONLY else "other" if name in COMPARING else "same"
        found[name] = [list(done.shape), bool(done.isfinite().all()), bool(done.any())]
        found[name].append(name == "group_rank" or of_one(config.algorithm, done) == known)
    except TypeError as error:
        found[name] = str(error)
Path("found.json").write_text(json.dumps(found))
"""


@pytest.mark.parametrize("release", newest_release())
def test_every_estimator_runs_and_takes_a_lone_response_as_the_checks_say(
    made: Maker, release: str, tmp_path: Path
) -> None:
    root = copy_of(made(Configuration(release, "hf")), tmp_path)
    (root / "estimators.py").write_text(DRIVER, encoding="utf-8")
    check_forked(root, "estimators.py")
    found = json.loads((root / "found.json").read_text(encoding="utf-8"))
    fail = {name: said for name, said in found.items() if isinstance(said, str)}
    assert sorted(fail) == FAIL.get(release, [])
    runs = {name: said for name, said in found.items() if name not in fail}
    assert len(runs) >= 8
    assert {name: said for name, said in runs.items() if said != [[4, 1], True, True, True]} == {}
