"""Runs of EasyR1's, whose reward function comes along, and of TRL's, of which YAML is read."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from extractor.importers.runs.run import Run, ScoringFunction
from extractor.importers.runs.run_reader import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import Imported, imported, imported_from, put
from tests.project.support import forget

REWARD = """'Scores.'
from __future__ import annotations
from scores.parts import bonus

def short(reward_inputs, worth=1.0):
    return [{"overall": worth * bonus(one["response_length"]), "right": float(one["response"] == one["ground_truth"])}
            for one in reward_inputs]

def of_old(predict_str, ground_truth, worth=1.0):
    return 1.0 if predict_str == ground_truth else 0.0

def texts(predicts, ground_truths):
    return [{"overall": float(one == two)} for one, two in zip(predicts, ground_truths)]

def further(reward_inputs, batch_data):
    return 1.0
"""
CONFIG = """
data: {train_files: own/rows@train, val_files: own/rows@test, answer_key: answer}
algorithm: {filter_key: overall, filter_low: 0.1}
worker:
  actor: {model: {model_path: a/b}}
  reward: {reward_function: "./rewards/own.py:short", reward_function_kwargs: {worth: 0.5}}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from imported_from(tmp_path / "made", "of_easy", monkeypatch)


def script(folder: Path, words: str = "") -> Path:
    files = {
        "own.yaml": CONFIG,
        "rewards/own.py": REWARD,
        "rewards/scores/parts.py": "def bonus(length):\n    return 1.0 if length < 3 else 0.0\n",
        "run.sh": f"python3 -m verl.trainer.main config=own.yaml {words}\n",
    }
    return put(folder, files) / "run.sh"


def run_of(folder: Path, words: str = "") -> Run:
    return read_run(script(folder, words), {}, {})


def made(package: Path, run: Path) -> Imported:
    return imported(package, run, "--package", "of_easy")


def test_the_function_that_a_run_names_is_found(tmp_path: Path) -> None:
    run = run_of(tmp_path, "worker.reward.reward_function_kwargs='{\"worth\": 2}'")
    assert isinstance(run.scoring_function, ScoringFunction)
    assert (run.scoring_function.function, run.scoring_function.settings) == ("short", {"worth": 2})
    alone = read_run(tmp_path / "own.yaml", {}, {})  # a config alone has what its launch has
    assert isinstance(alone.scoring_function, ScoringFunction)
    assert (alone.scoring_function.function, alone.scoring_function.settings) == ("short", {"worth": 0.5})
    assert not [item for item in run.remarks if "reward" in item.key or "filter" in item.key or "answer" in item.key]
    gone = run_of(tmp_path, "worker.reward.reward_function=elsewhere/own.py:short")
    assert gone.scoring_function is None
    assert [item.what for item in gone.remarks if item.key == "worker.reward.reward_function"] == ["to do"]


@pytest.mark.slow
def test_the_function_scores_in_the_project(tmp_path: Path, package: Path) -> None:
    torch = pytest.importorskip("torch")
    assert "name: easyr1" in made(package, script(tmp_path / "theirs")).recipe
    texts = {(1, 2): "yes", (1, 2, 3): "no"}
    tokenizer = SimpleNamespace(batch_decode=lambda rows, **_: [texts[tuple(row)] for row in rows])
    manager = importlib.import_module("of_easy.custom.easyr1_reward_manager").EasyR1RewardManager(tokenizer)
    batch = {
        "prompts": torch.zeros(2, 1, dtype=torch.long),
        "responses": torch.tensor([[1, 2, 0], [1, 2, 3]]),
        "attention_mask": torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]),
    }
    columns: dict[str, Any] = {"data_source": ["own"] * 2, "reward_model": [{"ground_truth": "yes"}] * 2}
    data = SimpleNamespace(batch=batch, non_tensor_batch=columns, meta_info={})
    found = manager(data, return_dict=True)
    assert found["reward_tensor"].tolist() == [[0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]
    assert found["reward_extra_info"]["right"] == [1.0, 0.0]


def test_a_function_of_each_form(tmp_path: Path, package: Path) -> None:
    for name in ("of_old", "texts", "further"):
        run = script(tmp_path / name, f"worker.reward.reward_function=/home/me/{name}/rewards/own.py:{name}")
        if name == "of_old":  # as EasyR1 called it before
            for file in (run, run.with_name("own.yaml")):
                file.write_text(file.read_text().replace("reward_function", "score_function"))
        project = imported(package / name, run, "--package", f"of_easy_{name}")
        assert (project.root / f"of_easy_{name}/custom/easyr1_rewards.py").exists() is (name != "further"), name
        assert ("it asks for batch_data" in project.read("from_run.md")) is (name == "further")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("of_old", "texts"):
            patch.syspath_prepend(str(package / name))
            manager = importlib.import_module(f"of_easy_{name}.custom.easyr1_reward_manager")
            manager.SETTINGS.pop("worth") if name == "texts" else None
            assert [manager.score(text, "yes", 3)["score"] for text in ("yes", "no")] == [1.0, 0.0]
            forget(f"of_easy_{name}")


@pytest.mark.slow
def test_prompts_are_written_into_the_template_of_the_run(tmp_path: Path, package: Path) -> None:
    pytest.importorskip("torch")
    words = "data.format_prompt=./own.jinja data.answer_key=result data.prompt_key=problem"
    run = script(tmp_path / "theirs", f"{words} +data.system_prompt='Be brief.'")
    put(tmp_path / "theirs", {"own.jinja": "\n{{ content | trim }} Think first.\n"})
    project = made(package, run)
    report = project.read("from_run.md")
    assert "EasyR1Prompts" in report
    assert not [key for key in ("answer_key", "system_prompt") if key in report]
    assert "path: of_easy/custom/easyr1_dataset.py" in project.recipe
    first = '{"problem": " 1 + 1? ", "result": 2}\n'
    second = '{"problem": [{"role": "user", "content": "x"}], "answer": 3}\n'
    rows = put(tmp_path, {"rows.jsonl": first + second}) / "rows.jsonl"
    prompts = importlib.import_module("of_easy.custom.easyr1_dataset").EasyR1Prompts
    plain = SimpleNamespace(prompt_key="problem", data_files=[str(rows)], config={"prompt_key": "problem"})
    plain._written = lambda row: prompts._written(plain, row)
    one, other = prompts.rows(plain)
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1? Think first."}]
    assert (one["problem"], one["reward_model"]["ground_truth"]) == (said, "2")
    assert other["problem"] == [{"role": "user", "content": "x"}]


def launched(folder: Path, text: str, files: dict[str, str]) -> Run:
    return read_run(put(folder, {**files, "run.sh": text}) / "run.sh", {}, {})


def stated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}


ALL_OF_IT = """
data: {train_files: some/rows@train, rollout_batch_size: 64, format_prompt: a.jinja, max_prompt_length: 100}
algorithm: {adv_estimator: grpo, use_kl_loss: true, kl_penalty: low_var_kl, kl_coef: 0.01}
worker:
  actor: {global_batch_size: 16, loss_avg_mode: seq, loss_type: gspo, model: {model_path: a/b},
    fsdp: {torch_dtype: bf16}}
  rollout: {n: 5, val_override_config: {temperature: 0.6}}
  reward: {reward_function: "./math.py:compute_score"}
trainer: {save_limit: -1, val_freq: 3, find_last_checkpoint: false}
"""


def test_a_config_of_easyr1(tmp_path: Path) -> None:
    run = read_run(put(tmp_path, {"config.yaml": ALL_OF_IT}) / "config.yaml", {}, {})
    actor = "actor_rollout_ref.actor"
    assert {
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": 64,
        f"{actor}.ppo_mini_batch_size": 16,
        f"{actor}.clip_ratio_high": 0.3,  # EasyR1's own default
        f"{actor}.use_kl_loss": True,
        f"{actor}.kl_loss_coef": 0.01,
        f"{actor}.kl_loss_type": "low_var_kl",
        "algorithm.use_kl_in_reward": False,
        f"{actor}.loss_agg_mode": "seq-mean-token-mean",
        f"{actor}.policy_loss.loss_mode": "gspo",
        "actor_rollout_ref.model.path": "a/b",
        "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
        "trainer.max_actor_ckpt_to_keep": None,
        "trainer.test_freq": 3,
        "trainer.resume_mode": "disable",
    }.items() <= stated(run).items()
    assert [(item.key, item.what) for item in run.remarks] == [
        ("data.train_files", "to do"),
        ("worker.reward.reward_function", "to do"),
        ("data.format_prompt", "not carried over"),
        ("worker.actor.fsdp.torch_dtype", "dropped"),
    ]


def test_a_launch_of_easyr1(tmp_path: Path) -> None:
    for words, in_loss, in_reward in (
        ("", True, False),
        ("algorithm.use_kl_loss=false", False, True),
        ("algorithm.disable_kl=true", False, False),
    ):
        text = f"N=3\npython3 -m verl.trainer.main config=own/config.yaml {words} worker.rollout.n=$N \\\n"
        text += """    worker.rollout.val_override_config='{"n":16,"temperature":1.0}'\n"""
        found = stated(launched(tmp_path, text, {"own/config.yaml": ALL_OF_IT}))
        assert found["actor_rollout_ref.rollout.n"] == 3
        assert found["actor_rollout_ref.rollout.val_kwargs.n"] == 16
        assert found["actor_rollout_ref.actor.use_kl_loss"] is in_loss
        assert found["algorithm.use_kl_in_reward"] is in_reward
    with pytest.raises(UsageError, match="not here"):
        launched(tmp_path, "python3 -m verl.trainer.main config=nowhere.yaml", {})


MODEL, ACTOR, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def trl_run_of(folder: Path, settings: str) -> Run:
    return read_run(put(folder, {"grpo.yaml": settings}) / "grpo.yaml", {}, {})


def test_settings_elsewhere_than_in_yaml_are_refused_with_their_line_and_the_way_round(tmp_path: Path) -> None:
    rloo, updates = "num_generations: 4\nreward_clip_range: [-1, 1]\n", "num_generations: 4\nsteps_per_generation: 4\n"
    put(tmp_path, {"rloo.yaml": rloo, "updates.yaml": updates, "grpo.py": "GRPOTrainer(model='a/b')\n"})
    commands = "trl grpo --config own.yaml --beta 0.1", "accelerate launch train.py --reward_funcs size"
    for name, command in enumerate(commands):
        put(tmp_path, {f"{name}.sh": f"cd .\n{command}\n"})
    command, way = r"sh:2: settings of TRL's trainers are read from YAML alone", "pass the YAML of its --config"
    for name, said, hint in (
        *((f"{name}.sh", command, way) for name in range(2)),
        ("grpo.py", "programs, notebooks and pages are not read", "of TRL's trainer, its settings as YAML"),
        ("updates.yaml", "steps_per_generation=4: several updates", "write data.train_batch_size"),
        ("rloo.yaml", "only GRPOTrainer is read", "--algorithm rloo"),
    ):
        with pytest.raises(UsageError, match=said) as error:
            read_run(tmp_path / name, {}, {})
        assert hint in str(error.value.hint), name


def test_what_has_to_be_a_number_is_one(tmp_path: Path) -> None:
    for settings, said in {
        "num_generations: 0": "num_generations is 0, and has to be a number of at least 1",
        "num_generations: 4\nbeta: high": "beta is 'high', and has to be a number",
        "num_generations: 4\nmax_steps: true": "max_steps is True",
        "num_generations: 4\neval_steps: 0.5": "eval_steps is 0.5, and has to be a number of at least 1",
    }.items():
        with pytest.raises(UsageError, match=said):
            trl_run_of(tmp_path, settings)


def test_rewards_and_what_a_device_computes_are_told(tmp_path: Path) -> None:
    run = trl_run_of(tmp_path, "model_name_or_path: c/d\nnum_generations: 4\nreward_funcs: [size]\n")
    expected = {f"{MODEL}.path": "c/d", f"{ROLLOUT}.n": 4, f"{ACTOR}.ppo_mini_batch_size": 2}
    assert expected.items() <= stated(run).items()
    assert any("for one device" in item.why for item in run.remarks)
    assert [item.key for item in run.remarks if item.what == "to do"] == ["reward_funcs"]


FEW = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nnum_generations: 4\n"
LR = f"{ACTOR}.optim"


MEANT: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "num_iterations: 1\nsave_steps: 8\neval_strategy: steps\neval_steps: 9",
        {"data.train_batch_size": 2, f"{ACTOR}.ppo_mini_batch_size": 2, "trainer.save_freq": 8, "trainer.test_freq": 9},
    ),
    ("max_steps: 10\nwarmup_steps: 3", {"trainer.total_training_steps": 10, f"{LR}.lr_warmup_steps": 3}),
    ("eval_strategy: steps\neval_on_start: true", {"trainer.test_freq": 500, "trainer.val_before_train": True}),
    ("loss_type: cispo\nepsilon_high: 5.0", {f"{ACTOR}.clip_ratio_low": 1.0, f"{ACTOR}.clip_ratio_high": 4.0}),
    (
        "loss_type: sapo\nsapo_temperature_neg: 1.2",
        {f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean", f"{ACTOR}.tau_neg": 1.2},
    ),
    ("shuffle_dataset: false\nsave_total_limit: 2", {"data.shuffle": False, "trainer.max_actor_ckpt_to_keep": 2}),
    (
        "use_peft: true",
        {f"{MODEL}.lora_rank": 16, f"{MODEL}.lora_alpha": 32, f"{MODEL}.target_modules": ["q_proj", "v_proj"]},
    ),
    ("", {"data.max_response_length": 512, f"{ACTOR}.loss_agg_mode": "token-mean", f"{ACTOR}.entropy_coeff": 0}),
)


def test_settings_mean_what_they_do_in_trl(tmp_path: Path) -> None:
    for said, meant in MEANT:
        found = stated(trl_run_of(tmp_path, FEW + said))
        for key, value in meant.items():
            expected = pytest.approx(value) if isinstance(value, float) else value
            assert found.get(key) == expected, (said, key)
