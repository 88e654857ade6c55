# vextract:template base/tests/test_messages.py - edit freely
"""What a run says at once: of missing paths, rewards that are not numbers, another run; how to go on."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import CONFIG_DIRECTORY, Alone

from generated_example.errors import ConfigError
from generated_example.output import PROJECT
from generated_example.rewards.scoring import FeatureNeeded, Scorer, ScoringError
from generated_example.run import process
from generated_example.settings import reward_keys
from generated_example.settings.loading import load_config
from generated_example.settings.setting_checks import check_paths
from generated_example.training.failures import report
from generated_example.training.given import Given


def test_a_path_that_is_not_there_is_named_before_torch_is_imported():
    command = [sys.executable, "-X", "importtime", "main.py", "actor_rollout_ref.model.path=/no/such/model"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert done.returncode == 2
    assert said[0] == "error: no model at /no/such/model: there is no such directory" and said[1].startswith("hint: ")
    assert not any(line.endswith("| torch") for line in done.stderr.splitlines())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("actor_rollout_ref.model.path", "./no_such_model"),
        ("data.train_files", "[gone.parquet,gone_too.parquet]"),
        (f"{reward_keys.FUNCTION}.path", "gone.py"),
    ],
)
def test_every_path_of_a_config_is_looked_for(setting, value):
    config = load_config(CONFIG_DIRECTORY, [f"{setting}={value}"])
    with pytest.raises(ConfigError, match=f"{value.strip('[]').partition(',')[0]}(.|\n)*hint: "):
        check_paths(config)


@pytest.mark.parametrize(
    "override",
    ["trainer.default_local_dir=/tmp/a=b", "trainer.logger=[console", "data.train_batch_size=4 }", "data.val_files=ü"],
)
def test_an_override_that_cannot_be_read_is_named(override):
    said = f"cannot read {re.escape(repr(override))}: [^\\n]*[^ ]\\nhint: quote a value"
    with pytest.raises(ConfigError, match=said):
        load_config(CONFIG_DIRECTORY, [override])


def test_settings_that_nothing_reads_are_named_together():
    with pytest.raises(ConfigError, match="unknown key own.one: .*; the same holds for own.two\nhint: "):
        load_config(CONFIG_DIRECTORY, ["+own.one=1", "+own.two=2"])


def test_an_argument_that_the_trainer_does_not_take_is_named():
    with pytest.raises(TypeError, match="takes no argument 'rewrd_fn'; it takes .*reward_fn, "):
        Given.of({"rewrd_fn": len})


@pytest.mark.parametrize("code", [None, 0, "bye"])
def test_a_run_that_a_hook_ends_has_failed(capsys, code):
    with pytest.raises(SystemExit) as caught:
        sys.exit(code)
    assert report(caught.value, SimpleNamespace(peers=None)) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: the run was ended by sys.exit({'' if code is None else repr(code)})\n  hook: ")
    assert f"{Path(__file__).name}:" in said


def test_a_full_disk_is_said_in_one_message(capsys):
    alone = SimpleNamespace(peers=None)
    with pytest.raises(OSError, match="No space") as caught, open("/dev/full", "w") as full:
        full.write("x" * 100_000)
    assert report(caught.value, alone) == 1
    assert "error: the disk takes no more: " in (shown := capsys.readouterr().err) and "hint: make room" in shown
    with pytest.raises(FileNotFoundError):  # a bug, perhaps, which needs its traceback
        report(FileNotFoundError(2, "No such file", "somewhere"), alone)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (1e39, "the reward is 1e+39, too large for float32"),
        (float("nan"), "the reward is nan, not a finite number"),
        (None, "the reward is None, not a number"),
        ({"acc": 1.0, 2: 1.0}, "the reward is a dict without `score`; it has acc, 2"),
    ],
)
def test_a_reward_that_is_none_is_named_with_the_owners_function(value, problem):
    def compute_score(data_source, solution_str, ground_truth, extra_info):
        return value

    sample = {"data_source": "mine", "solution_str": "", "ground_truth": "", "extra_info": None}
    with pytest.raises(ScoringError) as caught:
        Scorer(compute_score)([sample])
    assert caught.value.message.startswith(problem)
    assert caught.value.hook_file.startswith(f"{__file__}:")


@pytest.mark.skipif(False, reason="it is awaited")
def test_a_reward_that_is_async_names_its_feature():
    async def compute_score(data_source, solution_str, ground_truth, extra_info):
        return 1.0

    with pytest.raises(FeatureNeeded) as caught:
        Scorer(compute_score)
    assert caught.value.hint == "vextract add reward_processes"


def test_two_runs_do_not_share_a_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PATIENCE", 0.01)
    with process.lock_run_directory(tmp_path, Alone()):
        with pytest.raises(ConfigError, match="another run is going on in"):
            process.lock_run_directory(tmp_path, Alone())
    with process.lock_run_directory(tmp_path, Alone()):
        pass
