# vextract:template - edit freely
"""Flags: which file a config starts from, and several runs at once."""

import shutil

import pytest
from conftest import CONFIG_DIRECTORY

from __package__.errors import ConfigError
from __package__.settings.flags import parse
from __package__.settings.loading import load_config

OWN = "defaults: [ppo_trainer, _self_]\ntrainer:\n  total_training_steps: 7\n"


@pytest.fixture
def own(tmp_path):
    """A directory of one's own, with a config and a preset."""
    directory = tmp_path / "with a blank, and more"
    (directory / "preset").mkdir(parents=True)
    (directory / "mine.yaml").write_text(OWN)
    shutil.copy(CONFIG_DIRECTORY / "preset" / "rloo.yaml", directory / "preset" / "ours.yaml")
    return directory


def test_a_config_of_ones_own_starts_from_the_projects(own):
    asked = parse(["--config", str(own / "mine"), "preset=ours", "trainer.test_freq=3"], CONFIG_DIRECTORY)
    config = load_config(asked.files, asked.overrides)
    assert config.trainer.total_training_steps == 7 and config.trainer.test_freq == 3
    assert config.algorithm.adv_estimator == "rloo"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config-name", "ppo_trainr"], "no such file\nhint: did you mean ppo_trainer? There are: ppo_trainer"),
        (["--config", "OWN/empty.yaml"], "unknown key a"),
        (["--config-nam", "mine"], "unknown option --config-nam"),
        (["--config-path", "OWN", "--config-name=mine"], "OWN/mine.yaml"),
        (["data.train_batch_size=1,2"], "--multirun"),
    ],
)
def test_a_mistake_is_an_error_with_a_hint(own, arguments, message):
    (own / "empty.yaml").write_text("a: 1\n")
    with pytest.raises(ConfigError) as caught:
        asked = parse([argument.replace("OWN", str(own)) for argument in arguments], CONFIG_DIRECTORY)
        load_config(asked.files, asked.overrides)
    assert message.replace("OWN", str(own)) in str(caught.value) and "hint:" in str(caught.value)
