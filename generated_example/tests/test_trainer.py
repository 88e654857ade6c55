# vextract:template base/tests/test_trainer.py.jinja - edit freely
"""Short runs of the whole program: a few steps of a toy model on a CPU."""

import functools
import math
import shutil

import pytest
from conftest import CONFIG_DIRECTORY

from generated_example.errors import ConfigError
from generated_example.rewards.manager import TextRewardManager
from generated_example.settings import reward_keys
from generated_example.settings.loading import load_config
from generated_example.tracking.run_tracker import read_rows
from generated_example.training import validation
from generated_example.training.registries import POLICY_LOSS_REGISTRY

UPSTREAM_NAMES = {
    "critic/score/mean",
    "critic/rewards/mean",
    "critic/advantages/mean",
    "actor/entropy",
    "actor/pg_loss",
    "actor/ppo_kl",
    "actor/grad_norm",
    "actor/lr",
    "response_length/mean",
    "prompt_length/mean",
    "perf/throughput",
    "perf/time_per_step",
    "timing_s/gen",
    "timing_s/step",
    "training/global_step",
}


def test_what_is_measured_of_the_most_samples_is_at_the_core(monkeypatch):
    """Also where an owner's measures are not named after a number of samples."""
    measured = {"acc": {"mean@1": 0.5, "mean@2": 0.6, "best@2/mean": 0.7}, "reward": {"mean": 1.0}}
    monkeypatch.setattr(validation, "process_validation_metrics", lambda *_: {"toy": measured})
    found = validation.validation_metrics([{"data_source": "toy", "uid": 0}], {"acc": [1]})
    assert [name for name in found if name.startswith("val-core/")] == [
        "val-core/toy/acc/mean@2",
        "val-core/toy/acc/best@2/mean",
    ]
    monkeypatch.setattr(validation, "process_validation_metrics", lambda *_: {"toy": {"reward": {"mean": 1.0}}})
    assert list(validation.validation_metrics([], {})) == ["val-core/toy/reward/mean"]


def test_verls_own_function_is_no_owners_however_it_is_wrapped():
    def default_compute_score(data_source, solution_str, ground_truth):
        return 1.0

    wrapped = functools.partial(lambda function, more, **given: function(**given), default_compute_score, {})
    manager = type("Mine", (TextRewardManager,), {"score": lambda self, **row: 0.0})(None, 0, wrapped)
    assert manager.compute_score == manager.score


def test_a_step_reports_upstreams_metrics(train):
    rows = read_rows(train("trainer.total_training_steps=2", "trainer.val_before_train=true") / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert [name for name in rows[0] if name.startswith("val-core/") and name.endswith("/acc/mean@1")]
    assert not UPSTREAM_NAMES - rows[1].keys()
    assert all(math.isfinite(value) for value in rows[1].values())


def test_samples_of_training_are_recorded_with_their_rewards(train):
    run = train("trainer.total_training_steps=2", "local.log_train_generations=3", "trainer.test_freq=-1")
    rows = [row for row in read_rows(run / "generations.jsonl") if row["split"] == "train"]
    assert {row["step"] for row in rows} == {1, 2} and 2 <= len(rows) <= 6
    assert all(row["prompt"] and math.isfinite(row["score"]) and row["components"] for row in rows)
    assert "critic/rewards/frac_zero_std" in read_rows(run / "metrics.jsonl")[-1]
    none = train("trainer.total_training_steps=1", "local.log_train_generations=0", "trainer.test_freq=-1")
    assert read_rows(none / "generations.jsonl") == []


def test_the_same_seed_gives_the_same_run_and_another_does_not(train):
    runs = [
        reproducible(read_rows(train("trainer.total_training_steps=2", f"local.seed={seed}") / "metrics.jsonl"))
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


@pytest.fixture
def scored(tmp_path):
    """The option for a reward of its own: one that differs between any two responses, whatever is asked."""
    source = tmp_path / "any_score.py"
    source.write_text("def compute_score(solution_str, **kwargs):\n    return sum(map(ord, solution_str)) % 7 / 7\n")
    return f"{reward_keys.FUNCTION}.path={source}"


@pytest.mark.parametrize("estimator", ["rloo", "reinforce_plus_plus", "remax", "opo", "group_rank"])
def test_estimators_give_a_step(train, scored, estimator):
    rows = read_rows(train(scored, f"algorithm.adv_estimator={estimator}") / "metrics.jsonl")
    assert math.isfinite(rows[-1]["actor/pg_loss"]) and rows[-1]["actor/grad_norm"] > 0


@pytest.mark.skipif(len(POLICY_LOSS_REGISTRY) == 1, reason="this release of verl has no registry of losses")
def test_a_loss_of_ones_own_gives_a_step(train, scored):
    rows = read_rows(train(scored, "actor_rollout_ref.actor.policy_loss.loss_mode=spo") / "metrics.jsonl")
    assert rows[-1]["actor/grad_norm"] > 0


def test_the_first_step_is_no_distance_from_the_reference(train):
    run = train("actor_rollout_ref.actor.use_kl_loss=true", "algorithm.use_kl_in_reward=true")
    row = read_rows(run / "metrics.jsonl")[-1]
    assert row["actor/kl_loss"] == pytest.approx(0.0, abs=1e-6)
    assert row["actor/reward_kl_penalty"] == pytest.approx(0.0, abs=1e-6)


def test_a_reward_that_is_nan_stops_the_run_and_is_named(train, tmp_path, capsys):
    source = tmp_path / "score.py"
    source.write_text("def compute_score(**kwargs):\n    return float('nan')\n")
    train(f"{reward_keys.FUNCTION}.path={source}", code=1)
    shown = capsys.readouterr().err
    assert "the reward is nan, not a finite number" in shown
    assert f"{source}:1" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is not a file"),
        ("def other(**kwargs):\n    return 1\n", "compute_score"),
        ("def compute_score(**kwargs)\n    return 1\n", "SyntaxError"),
    ],
)
def test_a_reward_file_that_cannot_be_used_is_an_error_with_a_hint(train, tmp_path, capsys, text, message):
    source = tmp_path / "score.py"
    if text is not None:
        source.write_text(text)
    train(f"{reward_keys.FUNCTION}.path={source}", code=2)
    shown = capsys.readouterr().err
    assert message in shown and "score.py" in shown and "hint: " in shown


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


def test_a_file_that_is_no_yaml_is_named(tmp_path):
    copy = shutil.copytree(CONFIG_DIRECTORY, tmp_path / "config")
    (copy / "preset" / "mine.yaml").write_text("algorithm:\n  adv_estimator: [grpo\n")
    with pytest.raises(ConfigError, match=r"not valid YAML: .*mine\.yaml"):
        load_config(copy, ["preset=mine"])


@pytest.mark.parametrize("preset", ["grpo"])
def test_a_component_may_be_a_list_and_have_the_name_of_a_column(train, tmp_path, preset):
    scores = []
    for components in ("", ", parts=list(solution_str), none=None, uid='mine'"):
        source = tmp_path / f"score_{len(scores)}.py"
        result = f"dict(score=sum(map(ord, solution_str)) % 7 / 7{components})"
        source.write_text(f"def compute_score(solution_str, **kwargs):\n    return {result}\n")
        run = train(f"{reward_keys.FUNCTION}.path={source}", f"preset={preset}", "actor_rollout_ref.rollout.n=4")
        scores.append(read_rows(run / "metrics.jsonl")[-1]["critic/advantages/max"])
    assert scores[0] == scores[1] > 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.train_files=missing.jsonl", "no such file: missing.jsonl"),
        ("data.train_batch_size=1000", "data.train_batch_size"),
        ("trainer.total_trainign_steps=3", "total_training_steps"),
        ("trainer.total_training_steps=0", "must be at least 1"),
        ("actor_rollout_ref.rollout.temperature=0", "must be more than 0"),
        ("actor_rollout_ref.rollout.top_p=1.5", "at most 1"),
        ("actor_rollout_ref.actor.clip_ratio=-0.1", "must be 0 or more"),
        ("actor_rollout_ref.actor.entropy_coeff=nan", "not a number"),
        ("trainer.logger=[console,wandbb]", "is not a logger here"),
        ("actor_rollout_ref.rollout.val_kwargs.do_sample=true", "val_kwargs.temperature"),
        ("actor_rollout_ref.model.path=/no/such/model", "no such directory"),
    ],
)
def test_a_mistake_in_the_config_is_an_error_with_a_hint(train, capsys, override, message):
    train(override, code=2)
    shown = capsys.readouterr().err
    assert message in shown and "hint:" in shown and "Traceback" not in shown


def reproducible(rows):
    """Return what of the metrics does not depend on the machine and the clock."""
    return [{k: v for k, v in row.items() if not k.startswith(("perf/", "time", "timing_"))} for row in rows]
