"""Short runs of the whole program, further than a project's own tests go."""

import functools
import math
import shutil

import pytest
from conftest import CONFIG_DIRECTORY
from toy.errors import ConfigError
from toy.rewards.manager import TextRewardManager
from toy.settings import reward_keys
from toy.settings.flags import parse
from toy.settings.loading import load_config
from toy.tracking.run_tracker import read_rows
from toy.training import validation


def test_what_is_measured_of_the_most_samples_is_at_the_core(monkeypatch):
    """Also where an owner's measures are not named after a number of samples."""
    measured = {"acc": {"mean@1": 0.5, "mean@2": 0.6, "best@2/mean": 0.7}, "reward": {"mean": 1.0}}
    monkeypatch.setattr(validation, "process_validation_metrics", lambda *_: {0: measured})
    found = validation.validation_metrics([{"data_source": "toy", "uid": 0}], {"acc": [1]})
    assert [name for name in found if name.startswith("val-core/")] == [
        "val-core/toy/acc/mean@2",
        "val-core/toy/acc/best@2/mean",
    ]
    monkeypatch.setattr(validation, "process_validation_metrics", lambda *_: {0: {"reward": {"mean": 1.0}}})
    found = validation.validation_metrics([{"data_source": "toy", "uid": 0}], {"reward": [1.0]})
    assert list(found) == ["val-core/toy/reward/mean"]


def test_verls_own_function_is_no_owners_however_it_is_wrapped():
    def default_compute_score(data_source, solution_str, ground_truth):
        return 1.0

    wrapped = functools.partial(lambda function, more, **given: function(**given), default_compute_score, {})
    manager = type("Mine", (TextRewardManager,), {"score": lambda self, **row: 0.0})(None, 0, wrapped)
    assert manager.compute_score == manager.score


def test_samples_of_training_are_recorded_with_their_rewards(train):
    run = train("trainer.total_training_steps=2", "local.log_train_generations=3", "trainer.test_freq=-1")
    rows = [row for row in read_rows(run / "generations.jsonl") if row["split"] == "train"]
    assert {row["step"] for row in rows} == {1, 2} and 2 <= len(rows) <= 6
    assert all(row["prompt"] and math.isfinite(row["score"]) and row["components"] for row in rows)
    assert "critic/rewards/frac_zero_std" in read_rows(run / "metrics.jsonl")[-1]
    none = train("trainer.total_training_steps=1", "local.log_train_generations=0", "trainer.test_freq=-1")
    assert read_rows(none / "generations.jsonl") == []


@pytest.mark.parametrize("arguments", ["response, truth", "data_source, solution_str, ground_truth, extra_info, other"])
def test_a_reward_function_with_other_arguments_is_named(train, tmp_path, capsys, arguments):
    source = tmp_path / "score.py"
    source.write_text(f"def compute_score({arguments}):\n    return 1\n")
    train(f"{reward_keys.FUNCTION}.path={source}", code=2)  # before anything is generated
    shown = capsys.readouterr().err
    assert "cannot be called: " in shown and "solution_str" in shown and f"{source}:1" in shown


def test_a_reward_function_may_take_settings_of_its_own(train, tmp_path):
    source = tmp_path / "score.py"
    source.write_text("def compute_score(solution_str, bonus, **others):\n    return bonus\n")
    train(f"{reward_keys.FUNCTION}.path={source}", f"+{reward_keys.FUNCTION}.reward_kwargs.bonus=1")


def test_an_overlong_buffer_longer_than_responses_is_an_error_with_a_hint(train, capsys):
    train(f"{reward_keys.OVERLONG}.enable=true", f"{reward_keys.OVERLONG}.len=500", code=2)
    shown = capsys.readouterr().err
    assert f"{reward_keys.OVERLONG}.len is 500" in shown and "hint: " in shown


def test_a_setting_that_only_a_preset_has_can_be_given_with_it(tmp_path):
    copy = shutil.copytree(CONFIG_DIRECTORY, tmp_path / "config")
    (copy / "preset" / "mine.yaml").write_text("data:\n  apply_chat_template_kwargs:\n    of_mine: 1\n")
    config = load_config(copy, ["preset=mine", "data.apply_chat_template_kwargs.of_mine=2"])
    assert config.data.apply_chat_template_kwargs.of_mine == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--config-path=nowhere"], "--config nowhere/ppo_trainer.yaml"),
        (["--config=HERE/typed"], "trainer.total_training_steps is 'many'"),
        (["--config-name"], "expected one argument"),
    ],
)
def test_a_wrong_flag_is_an_error_with_a_hint(tmp_path, flags, message):
    (tmp_path / "typed.yaml").write_text("defaults: [ppo_trainer, _self_]\ntrainer: {total_training_steps: many}\n")
    with pytest.raises(ConfigError) as caught:
        asked = parse([flag.replace("HERE", str(tmp_path)) for flag in flags], CONFIG_DIRECTORY)
        load_config(asked.files, asked.overrides)
    assert message in str(caught.value) and "hint:" in str(caught.value)


def test_a_file_that_is_no_yaml_is_named(tmp_path):
    copy = shutil.copytree(CONFIG_DIRECTORY, tmp_path / "config")
    (copy / "preset" / "mine.yaml").write_text("algorithm:\n  adv_estimator: [grpo\n")
    with pytest.raises(ConfigError, match=r"not valid YAML: .*mine\.yaml"):
        load_config(copy, ["preset=mine"])


def test_a_component_may_be_a_list_and_have_the_name_of_a_column(train, tmp_path):
    scores = []
    for components in ("", ", parts=list(solution_str), none=None, uid='mine'"):
        source = tmp_path / f"score_{len(scores)}.py"
        result = f"dict(score=sum(map(ord, solution_str)) % 7 / 7{components})"
        source.write_text(f"def compute_score(solution_str, **kwargs):\n    return {result}\n")
        run = train(f"{reward_keys.FUNCTION}.path={source}", "preset=grpo", "actor_rollout_ref.rollout.n=4")
        scores.append(read_rows(run / "metrics.jsonl")[-1]["critic/advantages/max"])
    assert scores[0] == scores[1] > 0
