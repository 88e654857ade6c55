"""Hydra's flags: which file a config starts from, where it lies, and several runs at once."""

import shutil

import pytest
from conftest import CONFIG_DIRECTORY
from toy.errors import ConfigError
from toy.settings.flags import ConfigFiles, parse
from toy.settings.loading import load_config

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
    words = ["--config-path", str(own), "--config-name", "mine", "preset=ours", "trainer.test_freq=3"]
    asked = parse(words, CONFIG_DIRECTORY)
    config = load_config(asked.files, asked.overrides)
    assert config.trainer.total_training_steps == 7 and config.trainer.test_freq == 3
    assert config.algorithm.adv_estimator == "rloo"
    assert asked.flags == ["--config-name=mine", f"--config-path={own}"]


def test_flags_stand_anywhere_and_what_is_none_is_a_setting():
    asked = parse(["a=1", "--cfg", "job", "~b", "--none"], CONFIG_DIRECTORY)
    assert asked.overrides == ["a=1", "~b", "--none"]
    assert asked.cfg and asked.files == ConfigFiles(CONFIG_DIRECTORY)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config-name", "mime"], "no such file\nhint: did you mean mine? There are: empty, mine, ppo_trainer"),
        (["--config-path=nowhere"], "no such directory"),
        (["--config-name", "empty"], "defaults: [ppo_trainer, _self_]"),
        (["--config-name", "typed"], "trainer.total_training_steps is 'many'"),
        (["--config-name"], "expected one argument"),
        (["--config-nam", "mine"], "unknown option --config-nam"),
        (["data.train_batch_size=1,2"], "--multirun"),
    ],
)
def test_a_mistake_is_an_error_with_a_hint(own, arguments, message):
    (own / "empty.yaml").write_text("a: 1\n")
    (own / "typed.yaml").write_text(OWN.replace("7", "many"))
    with pytest.raises(ConfigError) as caught:
        asked = parse(["--config-path", str(own), *arguments], CONFIG_DIRECTORY)
        load_config(asked.files, asked.overrides)
    assert message in str(caught.value) and "hint:" in str(caught.value)
