# vextract:template - edit freely
"""Models whose weights are the shares of several processes."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from __package__.errors import ConfigError
from __package__.settings import reward_keys
from __package__.settings.loading import load_config
from __package__.settings.setting_checks import check_paths
from __package__.switches import REWARD_MODEL


def test_a_model_in_shares_is_refused_where_another_program_reads_it(tmp_path):
    actor = tmp_path / "global_step_1" / "actor"
    (actor / "weights").mkdir(parents=True)
    (actor / "weights" / "tensors.json").write_text("{}")
    config = load_config(Path(__file__).parents[1] / "config", [f"actor_rollout_ref.model.path={actor}"])
    check_paths(config)  # this project reads it, and hands the weights on
    read = {"actor_rollout_ref.rollout.load_format": "safetensors"}
    if REWARD_MODEL:
        read[reward_keys.JUDGE_PATH] = str(actor)
    for key, value in read.items():
        changed = OmegaConf.merge(config)
        OmegaConf.update(changed, key, value)
        with pytest.raises(ConfigError, match=rf"shares of several processes(.|\n)*hint: .*export {actor.parent} OUT"):
            check_paths(changed)
