# vextract:template - edit freely
"""A checkpoint becomes a model only if it is whole."""

import pytest

from __package__.errors import ConfigError
from __package__.export import find_checkpoint, main


def test_a_damaged_checkpoint_is_not_exported_and_the_reason_is_said(train, tmp_path, capsys):
    run = train("trainer.save_freq=1", "trainer.total_training_steps=2")
    file = run / "global_step_2" / "actor" / "model.safetensors"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1, *file.read_bytes()[1:]]))
    assert find_checkpoint(run) == run / "global_step_1"
    with pytest.raises(ConfigError, match="model.safetensors"):
        find_checkpoint(run / "global_step_2")
    assert main([str(run), str(tmp_path / "out")]) == 0 and (tmp_path / "out" / "config.json").is_file()
    (tmp_path / "cut_short" / "global_step_3").mkdir(parents=True)
    reasons = {
        ("nowhere",): "no checkpoint",
        ("cut_short/global_step_3",): "has no complete.json",
        ("nowhere", "--best"): "no checkpoint with a validation score",
    }
    for (name, *flags), reason in reasons.items():
        capsys.readouterr()
        assert main([str(tmp_path / name), str(tmp_path / "new"), *flags]) == 2
        shown = capsys.readouterr().err
        assert reason in shown and "\nhint: " in shown
