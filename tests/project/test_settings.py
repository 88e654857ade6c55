"""Each setting of a project is read, refused or said: none is ignored without a word."""

import json
import re
import shlex
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extractor.values import releases
from tests.project.running import check_forked, check_python
from tests.project.support import TOGETHER, Configuration, Maker
from tests.releases import NEWEST

DRIVER = Path(__file__).with_name("settings_driver.py")

# Reads configs of runs, and trains nothing.
READ = """
import contextlib, io, json, sys, main
found = []
for words in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as shown:
        config = main.read_config(words)
    found.append([config if isinstance(config, int) else 0, shown.getvalue()])
print(json.dumps(found))
"""
# Runs that between them read what a project with a critic, an implicit reward model and a teacher reads.
RUNS = (
    "algorithm.adv_estimator=rloo local.prime.enable=true local.prime.filter_truncate=true",
    "preset=distill distillation.distillation_loss.topk=4 distillation.distillation_loss.loss_mode=forward_kl_topk",
    "algorithm.adv_estimator=gae actor_rollout_ref.rollout.multi_turn.enable=true",
    "actor_rollout_ref.actor.use_kl_loss=true algorithm.use_kl_in_reward=true algorithm.kl_ctrl.type=adaptive "
    "algorithm.filter_groups.enable=true data.filter_overlong_prompts=true trainer.rollout_data_dir=samples "
    "actor_rollout_ref.rollout.val_kwargs.do_sample=true actor_rollout_ref.rollout.val_kwargs.temperature=1.0",
)
# Settings that count where other parts are in use than those runs have.
ELSEWHERE = {
    r"actor_rollout_ref\.model\.(lora_alpha|lora\.merge|target_modules|exclude_modules)": "with an adapter",
    r"actor_rollout_ref\.(actor|ref)\.fsdp_config\..*": "with several processes",
    r"critic\..*": "without a critic in the project",
    r"(reward|reward_model)\.(reward_kwargs|overlong_buffer)\..*": "by upstream's DAPO manager",
    r"(reward\.)?custom_reward_function\..*": "with a reward function in a file",
    r"reward\.reward_manager\..*|reward_model\.(reward_manager|reward_kwargs.*)": "when a reward manager is chosen",
    r"(local|reward)\.reward_model\..*|reward_model\..*": "with a model as judge",
    r"(reward|reward_model)\.sandbox_fusion\..*": "with a server that runs programs",
    r"local\.(device|dtype|num_threads|keep_freed_memory)": "before the run begins",
    r"local\.env\.(error_reward|max_error_share)": "when an environment fails",
    r"trainer\.total_epochs": "where the number of steps is not given",
    r"trainer\.resume_from_path": "by trainer.resume_mode=resume_path",
}


def answers_to(root: Path, *cases: str) -> list[tuple[int, str]]:
    """The exit code of a run with such settings, if it ends before it trains, and what is said."""
    done = check_forked(root, "-c", READ, stdin=json.dumps([shlex.split(case) for case in cases]))
    return [(code, shown) for code, shown in json.loads(done.stdout.splitlines()[-1])]


def driven(root: Path, task: str, out: Path, *begin: str, stdin: str = "") -> dict[str, Any]:
    check_forked(root, str(DRIVER), task, str(out), *begin, stdin=stdin)
    return json.loads(out.read_text())


BOTH = pytest.mark.parametrize("release", [NEWEST[-1], pytest.param("0.6.1", marks=pytest.mark.thorough)])


@BOTH
def test_what_is_accepted_is_read(made: Maker, tmp_path: Path, release: str) -> None:
    features = ("critic", "distillation", "dynamic_sampling", "episodes", "prime", "reward_logs")
    root = made(Configuration(release, "hf", features=features)).root
    offered = releases.load(release).algorithms
    runs = [run for run in RUNS if "distill" in offered or "distill" not in run]
    recorded = driven(root, "record", tmp_path / "read.json", stdin="\n".join(runs))
    answers = driven(root, "change", tmp_path / "answers.json")
    read, handed_on = set(recorded["read"]), tuple(f"{section}." for section in recorded["handed_on"])
    accepted = {name for name, answer in answers.items() if answer == "accepted" and not name.startswith(handed_on)}
    assert [name for name in accepted - read if not any(re.fullmatch(pattern, name) for pattern in ELSEWHERE)] == []
    assert len(read & answers.keys()) > 100


@BOTH
def test_a_setting_of_another_engine_is_refused(made: Maker, tmp_path: Path, release: str) -> None:
    roots = {engine: made(Configuration(release, engine)).root for engine in ("hf", "vllm")}
    answers = {"hf": driven(roots["hf"], "change", tmp_path / "hf.json"), "vllm": {}}
    for begin in ("actor_rollout_ref.rollout.", "local.rollout_"):
        answers["vllm"] |= driven(roots["vllm"], "change", tmp_path / "vllm.json", begin)
    for name in ("tensor_model_parallel_size", "gpu_memory_utilization", "enforce_eager", "load_format", "name"):
        assert answers["hf"][f"actor_rollout_ref.rollout.{name}"].startswith("refused: "), name
    assert "--engine vllm" in answers["hf"]["actor_rollout_ref.rollout.tensor_model_parallel_size"]
    assert answers["hf"]["local.rollout_micro_batch_size"] == "accepted"
    assert "--engine hf" in answers["vllm"]["local.rollout_micro_batch_size"]
    unread = [name for name, answer in answers["hf"].items() if "nothing in this project reads it" in answer]
    others = {name: answers["hf"][name] for name in unread if not name.startswith("actor_rollout_ref.")}
    for part, feature in (("quantization", "qlora"), ("overlong_", "overlong_penalty"), ("balance_", "dynamic_bsz")):
        assert [name for name in others if part in name]
        assert all(f"vextract add {feature}" in said for name, said in others.items() if part in name)
    refused = {name for name, answer in answers["vllm"].items() if "nothing in this project reads it" in answer}
    assert refused <= {"local.rollout_micro_batch_size"} < answers["vllm"].keys()


TURNS = "+actor_rollout_ref.rollout.multi_turn.enable"
MISTAKES = {
    "preset=gprpo": "did you mean grpo?",
    "preset=prime": "vextract add prime",
    "preset=primee": "did you mean prime?",
    "preset=rloo,grpo": "hint: for --multirun: vextract add sweep\n",
    "+data.env.max_turns=3": "hint: vextract add episodes\n",
    f"{TURNS}=true": "hint: vextract add episodes\n",
    "trainer.logger=[console,wandb]": "vextract add trackers",
    "+trainer.totl_epochs=3": "did you mean trainer.total_epochs?",
    "trainer.n_gpus_per_node=8": "torchrun --nproc-per-node 8 main.py",
    "actor_rollout_ref.rollout.name=vllm": "(hf, sglang, vllm): vextract upgrade --engine",
    "actor_rollout_ref.actor.kl_loss_type=LOW_VAR": "did you mean low_var_kl?",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2": "processes do not share a sequence here",
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=2": "must be from 0 to 1",
    "algorithm=grpo": "preset=grpo",
    "=5": "is not key=value",
    "trainer.experiment_name=../../elsewhere": "names no directory of its own",
    "actor_rollout_ref.actor.optim.learning=1": "actor_rollout_ref.actor.optim.lr",
    # A setting's former name is answered with its present one, if this project has it.
    "custom_reward_function.path=mine.py": (
        "error: custom_reward_function.path is called reward.custom_reward_function.path in this release of verl\n"
        "hint: reward.custom_reward_function.path=mine.py\n"
    ),
    "+reward_model.reward_kwargs.weights.acc=1": "hint: +reward.reward_kwargs.weights.acc=1\n",
}


# What people bring from elsewhere, and what they get wrong; the hint, as it is typed, is taken.
TYPED = {
    "learning_rate=1e-3": "actor_rollout_ref.actor.optim.lr=1e-3",
    "--learning-rate=1e-3": "the same command with actor_rollout_ref.actor.optim.lr=1e-3",
    "lr=fast": "actor_rollout_ref.actor.optim.lr=0.002",
    "actor_rollout_ref.actor.optim.lr=fast": "command with actor_rollout_ref.actor.optim.lr=0.002",
    "data.train_batch_size=0": "the same command with data.train_batch_size=32",
    "trainer.logger=wandbb": "did you mean wandb?",
    "max_steps=3": "trainer.total_training_steps=3",
    "trainer.total_step=4": "trainer.total_training_steps=4",
    "model=some/model": "actor_rollout_ref.model.path=some/model",
    "actor_rollout_ref.actor=3": "such as actor_rollout_ref.actor.",
    "data=some.parquet": "data.train_files=some.parquet",
    "nonsense": "main.py --help",
    "some.thing.else=1": "main.py --cfg",
    "trainer.experiment_name=": "with trainer.experiment_name=mine",
}
_IN_HINT = re.compile(r"(?:main\.py|with) ((?:'[^']*'|\S)+)|such as (\S+)|did you mean (\S+)\?|^(\w+(?:\.\w+)+=\S+)$")


def _typed(mistake: str, hint: str) -> str:
    """What a hint has one type; of a choice the name alone, which takes the place of the wrong value."""
    found = next(filter(None, _IN_HINT.search(hint).groups()))  # type: ignore[union-attr]
    words = shlex.split(found)
    return words[0] if "=" in words[0] or words[0].startswith("-") else f"{mistake.partition('=')[0]}={words[0]}"


def test_a_mistake_is_answered_at_once_with_a_hint_that_is_taken_as_it_is_typed(root: Path) -> None:
    """Before anything slow is imported."""
    script = """
        import contextlib, io, json, sys
        from main import main
        found = []
        for word in json.load(sys.stdin):
            with contextlib.redirect_stderr(io.StringIO()) as shown, contextlib.redirect_stdout(io.StringIO()):
                code = main([word, *sys.argv[1:]])
            found.append([code, shown.getvalue()])
        assert not {"torch", "transformers", "numpy"} & sys.modules.keys()
        print(json.dumps(found))
    """

    def said_of(words: Iterable[str], *more: str) -> list[tuple[int, str]]:
        done = check_python(root, "-c", textwrap.dedent(script), *more, stdin=json.dumps([*words]))
        return [(code, shown) for code, shown in json.loads(done.stdout)]

    typed = []
    wrong = {**MISTAKES, **TYPED}
    for (mistake, expected), (code, shown) in zip(wrong.items(), said_of(wrong), strict=True):
        hint = shown.partition("\nhint: ")[2].partition("\n")[0]
        assert (code, bool(hint)) == (2, True), mistake
        assert expected in (hint if mistake in TYPED else shown), shown
        if mistake in TYPED:
            typed.append(_typed(mistake, hint))
    lacking = "names 'wandb', which is not a logger here\nhint: vextract add trackers"
    for word, (code, shown) in zip(typed, said_of(typed, "--cfg"), strict=True):
        assert code == 0 or lacking in shown, (word, shown)


def test_a_config_of_any_path_goes_over_the_projects(project: Path, tmp_path: Path) -> None:
    own = tmp_path / "my run.yaml"
    own.write_text(
        "preset: rloo\ntrainer: {total_training_steps: 3}\nactor_rollout_ref.actor.optim.lr: 2e-4\n"
        'data.train_files: ["a,b=c.parquet", d]\ndata.val_files: null\nlocal: {seed: 4}\n'
    )

    def composed(*words: str) -> dict[str, Any]:
        done = check_forked(project, "main.py", "--cfg", *words)
        return yaml.safe_load(done.stdout)

    config = composed("--config", str(own), "local.seed=5")
    assert config["algorithm"]["adv_estimator"] == "rloo"
    assert (config["trainer"]["total_training_steps"], config["local"]["seed"]) == (3, 5)
    assert config["actor_rollout_ref"]["actor"]["optim"]["lr"] == 2e-4
    assert config["data"]["train_files"] == ["a,b=c.parquet", "d"]
    # What a run has written down, as a whole; by Hydra's name for the flag.
    whole = tmp_path / "whole.yaml"
    whole.write_text(yaml.safe_dump(config))
    assert composed("--config-name", str(whole)) == config
    for text, said in (
        ("trainer: {totl_epochs: 3}\n", "did you mean trainer.total_epochs=3?"),
        ("a: [\n", "is not valid YAML"),
        ("trainer: {total_training_steps: many}\n", "trainer.total_training_steps is 'many'"),
    ):
        own.write_text(text)
        done = check_forked(project, "main.py", "--cfg", "--config", str(own), code=2)
        assert said in done.stderr
    done = check_forked(project, "main.py", "--config", str(tmp_path / "none.yaml"), code=2)
    assert "choose one of: ppo_trainer; or give the path of a YAML file" in done.stderr


def test_names_that_a_file_has_are_told(project: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from torch.utils.data import Dataset\n"
        "async def score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    return 1.0\ndef _hidden(): ...\nclass Rows(Dataset): ...\nclass Other: ...\n"
    )
    path = tmp_path / "own.py"
    (broken := tmp_path / "broken.py").write_text("import no_such_package\n")
    for words, said in (
        (("algorithm.adv_estimator=GRPO",), "did you mean grpo? There are: gdpo,"),  # and no gae
        ((f"reward.custom_reward_function.path={path}",), "hint: reward.custom_reward_function.name=score\n"),
        ((f"data.custom_cls.path={path}", "data.custom_cls.name=Row"), "vextract add dataset_classes\n"),
    ):
        done = check_forked(project, "main.py", *words, code=2)
        assert said in done.stderr
    done = check_forked(project, "main.py", f"reward.custom_reward_function.path={broken}", code=1)
    assert f"and run `make setup`\n  hook: {broken}:1\n" in done.stderr
    check_forked(project, "-c", "import toy.absent as a; assert 'actor.optim.lr' not in str(a.ABSENT_SETTINGS)")
    preset = project / "config" / "preset" / "on_an_absent_one.yaml"
    preset.write_text("defaults: [ppo, _self_]\n")
    done = check_forked(project, "main.py", "preset=on_an_absent_one", code=2)
    preset.unlink()
    assert done.stderr.endswith(
        "error: preset ppo needs critic, which this project was made without\nhint: vextract add critic\n"
    )
    done = check_forked(project, "-c", "import toy.episodes.tool_loop", code=1)
    assert done.stderr.endswith("\nhint: vextract add tools\n")


PLAIN = Configuration(NEWEST[-1], "hf")
OLDER = Configuration("0.6.1", "hf")
ACTOR, VALIDATION = "actor_rollout_ref.actor", "actor_rollout_ref.rollout.val_kwargs"
FEW = f"data.train_batch_size=4 actor_rollout_ref.rollout.n=4 {ACTOR}.ppo_mini_batch_size=4"
PASSES, OF_A_PASS = f"{ACTOR}.ppo_micro_batch_size_per_gpu", "averages each micro-batch in this release"
OF_KL_COV, ADDED = "note: the loss kl_cov chooses tokens within a micro-batch", "sums the responses of a micro-batch"
# Of a project: settings, the exit code, and what is said; or what is not, after a "not ".
ANSWERS: dict[Configuration, list[tuple[str, int, str]]] = {
    PLAIN: [
        ("critic.model.lora_rank=8", 2, "vextract add"),
        ("--lr 0.001", 2, "the same command with actor_rollout_ref.actor.optim.lr=0.001\n"),
        (f"{ACTOR}.use_kl_loss=yes", 2, f"the same command with {ACTOR}.use_kl_loss=true\n"),
        # In sections that hold arguments of an owner's code nothing needs a plus; what is misspelt is asked about.
        ("'reward.reward_kwargs.weights={a: 1.0}' data.env.size=3", 0, ""),
        ("reward.reward_kwargs.max_resp_length=5", 2, "max_resp_len"),
        ("'reward.weights={a: 1.0}'", 2, "+reward.weights"),
        # A value out of range is refused where it counts: scripts state it beside a validation that is greedy.
        (f"{VALIDATION}.top_p=0 {VALIDATION}.do_sample=false", 0, ""),
        (f"{VALIDATION}.top_p=0 {VALIDATION}.do_sample=true", 2, f"{VALIDATION}.top_p is 0"),
        ("trainer.total_epochs=3 trainer.total_training_steps=5", 0, "trainer.total_epochs has no effect"),
        # What depends on the passes.
        ("preset=kl_cov", 0, f"not {OF_KL_COV}"),
        (f"preset=kl_cov {PASSES}=128", 0, OF_KL_COV),
        (f"{FEW} {PASSES}=4", 0, f"not {OF_A_PASS}"),
    ],
    OLDER: [
        ("preset=dr_grpo", 0, ADDED),
        (f"{FEW} {PASSES}=4", 0, OF_A_PASS),
        (f"{FEW} {PASSES}=16", 0, f"not {OF_A_PASS}"),
    ],
    Configuration(NEWEST[-1], "hf", everything=True): [("critic.model.lora_rank=8", 2, "not vextract add")],
    Configuration(NEWEST[-1], "hf", features=TOGETHER): [
        (
            f"{ACTOR}.kl_loss_coef=0.1 local.reward.timeout_score=1.0",
            0,
            f": some seconds\nnote: {ACTOR}.kl_loss_coef has no effect without {ACTOR}.use_kl_loss=true\n"
            "note: local.reward.timeout_score has no effect while local.reward.timeout is null\n",
        ),
        # What may be null by its comment.
        (f"{ACTOR}.clip_ratio_low=null {ACTOR}.clip_ratio_high=null", 0, ""),
        ("algorithm.rollout_correction.rollout_is=null", 0, ""),
    ],
}


@pytest.mark.parametrize("configuration", ANSWERS, ids=lambda made: "-".join((str(made), *made.features)))
def test_what_is_refused_and_what_is_noted(made: Maker, configuration: Configuration) -> None:
    cases = ANSWERS[configuration]
    found = answers_to(made(configuration).root, *(case for case, *_ in cases))
    for (case, wanted, said), (code, shown) in zip(cases, found, strict=True):
        assert code == wanted, (case, shown)
        assert (said.removeprefix("not ") in shown) != said.startswith("not "), (case, shown)


def test_what_hooks_read_and_register_counts(project: Path) -> None:
    own = project / "toy" / "custom" / "own.py"
    own.write_text(
        "from ..vendored.algorithms.core_algos import register_adv_est\n\n\n"
        '@register_adv_est("mine")\ndef mine(config):\n    return config.trainer.my_setting, config.multi_turn.enable\n'
    )
    done = check_forked(
        project, "main.py", "--cfg", "algorithm.adv_estimator=mine", "+trainer.my_setting=1", f"{TURNS}=true"
    )
    own.write_text('"""Not a word of my_setting in code."""  # my_setting\n')
    check_forked(project, "main.py", "--cfg", f"{TURNS}=false")
    done = check_forked(project, "main.py", "--cfg", "+trainer.my_setting=1", code=2)
    assert "toy/custom" in done.stderr


def test_a_mode_that_the_owner_adds_to_the_algorithms_is_one(project: Path) -> None:
    core = project / "toy/vendored/algorithms/core_algos.py"
    text, known = core.read_text(), 'if loss_agg_mode == "token-mean":'
    assert text.count(known) == 1
    core.write_text(text.replace(known, f'if loss_agg_mode == "of-mine":\n        return loss_mat.sum()\n    {known}'))
    mode = "actor_rollout_ref.actor.loss_agg_mode"
    (known, _), (code, shown) = answers_to(project, f"{mode}=of-mine", f"{mode}=of-min")
    assert (known, code, f"{mode} is 'of-min'" in shown) == (0, 2, True)
