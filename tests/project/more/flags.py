"""Hydra's flags: further than a project's own tests go."""

import pytest
from conftest import CONFIG_DIRECTORY
from toy.errors import ConfigError
from toy.settings.flags import ConfigFiles, parse
from toy.settings.loading import load_config

OWN = "defaults: [ppo_trainer, _self_]\ntrainer:\n  total_training_steps: 7\n"


def test_flags_stand_anywhere_and_what_is_none_is_a_setting():
    asked = parse(["a=1", "--cfg", "job", "~b", "--none"], CONFIG_DIRECTORY)
    assert asked.overrides == ["a=1", "~b", "--none"]
    assert asked.cfg and asked.files == ConfigFiles(CONFIG_DIRECTORY)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config-path=nowhere"], "no such directory"),
        (["--config-name", "typed"], "trainer.total_training_steps is 'many'"),
        (["--config-name"], "expected one argument"),
    ],
)
def test_a_wrong_flag_is_an_error_with_a_hint(tmp_path, arguments, message):
    (tmp_path / "typed.yaml").write_text(OWN.replace("7", "many"))
    with pytest.raises(ConfigError) as caught:
        asked = parse(["--config-path", str(tmp_path), *arguments], CONFIG_DIRECTORY)
        load_config(asked.files, asked.overrides)
    assert message in str(caught.value) and "hint:" in str(caught.value)
