"""Export projects, make projects of runs, and refuse bad input of both."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from extractor.importers.config.release import ReleaseConfig
from extractor.values.configtree import resolve
from tests.importers.conftest import Imported, imported, put, vextract
from tests.releases import NEWEST, source_of

pytestmark = pytest.mark.slow  # it begins early, being long

PROJECT = NEWEST[-1]
RUN = "python -m verl.trainer.main_ppo"
BASE = "data.train_files=/d/t.parquet data.val_files=/d/v.parquet actor_rollout_ref.model.path=/m"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def told(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def test_an_export_has_the_hooks_and_settings_and_is_no_run_to_import(
    projects: dict[str, Path], tmp_path: Path
) -> None:
    changes = (
        f"{ACTOR}.optim.lr=3e-7",
        "data.train_batch_size=96",
        "algorithm.adv_estimator=rloo",
        "data.val_files=/d/v.parquet",
        "data.train_files=[/d/a.parquet,/d/b.parquet]",
        f"{ACTOR}.grad_clip=0.3",
    )
    for recipe in ("toy", "gsm8k"):
        out = tmp_path / recipe
        assert vextract("export", projects[recipe], "-o", out, *told(*changes)).code == 0
        text = (out / "run.sh").read_text()
        assert all(change.partition("=")[0] + "=" in text for change in changes)
        # The training engine reads this one, the actor of earlier releases the other one.
        assert f"{ACTOR}.optim.clip_grad=0.3" in text
        result = vextract("new", tmp_path / "back", "--verl", PROJECT, "--from-verl-run", out / "run.sh")
        assert result.code == 2
        assert "go on with the project that it was made from" in result.err
        for hook in sorted((projects[recipe] / recipe / "custom").glob("*.py")):
            assert (out / recipe / "custom" / hook.name).read_bytes() == hook.read_bytes()
        assert not (out / recipe / "training/trainer.py").exists()  # verl has its own


def test_edits_to_vendored_files_become_a_patch(tmp_path: Path) -> None:
    """One beside the first line, which verl's file has not, fits; one of a line that a fix has changed does not."""
    project, out = tmp_path / "p", tmp_path / "out"
    assert vextract("new", project, "--verl", PROJECT).code == 0
    edited = project / "p/vendored/algorithms/core_algos.py"
    text = edited.read_text()
    edited.write_text(text.replace("def agg_loss(", "EDITED = 1\n\n\ndef agg_loss(", 1))
    result = vextract("export", project, "-o", out, "--json")
    (edit,) = result.json["edits"]
    assert edit["upstream_path"] == "verl/trainer/ppo/core_algos.py"
    assert edit["applies"]
    patch = (out / "upstream.patch").read_text()
    assert patch.startswith("--- a/verl/trainer/ppo/core_algos.py\n+++ b/verl/trainer/ppo/core_algos.py\n")
    assert "+EDITED = 1" in patch
    assert "core_algos.py" in (out / "UPSTREAM.md").read_text()
    original = source_of(PROJECT).files[edit["upstream_path"]]
    place = tmp_path / "checkout" / edit["upstream_path"]
    place.parent.mkdir(parents=True)
    place.write_bytes(original)
    subprocess.run(["git", "apply", str(out / "upstream.patch")], cwd=tmp_path / "checkout", check=True)
    # Between what comes before and after it in the project; upstream may have more there.
    lines = place.read_text().splitlines()
    assert lines.count("EDITED = 1") == 1
    lines.remove("EDITED = 1")
    assert [line for line in lines if line] == [line for line in original.decode().splitlines() if line]
    first, *lines = text.splitlines()
    changed = next(line for line in lines if line.startswith(" ") and line not in original.decode().splitlines())
    for line, other, fits in ((first, f"{first}\n# mine", True), (changed, f"{changed} + 0", False)):
        edited.write_text(text.replace(line, other, 1))
        out = tmp_path / f"out-{fits}"
        (edit,) = vextract("export", project, "-o", out, "--json").json["edits"]
        said = (out / "UPSTREAM.md").read_text()
        assert edit["applies"] is fits
        assert "core_algos.py" in said
        assert ("+# mine" in (out / "upstream.patch").read_text()) if fits else edit["why"] in said
        assert fits or edit["why"].startswith("changes lines")


def converted(folder: Path, *lines: str, base: str = BASE, options: tuple[str, ...] = ("--verl", PROJECT)) -> Imported:
    """A project that is made of a launch."""
    script = put(folder, {"run.sh": " \\\n  ".join((f"{RUN} {base}", *lines)) + "\n"}) / "run.sh"
    return imported(folder / "p", script, *options)


def test_a_script_of_a_fork_or_from_between_two_releases(tmp_path: Path) -> None:
    """A loss of a fork's actor is that of releases, and percent are a share."""
    made = converted(
        tmp_path,
        f"algorithm.adv_estimator=grpo {ROLLOUT}.n=4 {ROLLOUT}.name=vllm",
        f"{ROLLOUT}.update_weights_bucket_megabytes=512 {ACTOR}.fsdp_config.grad_offload=False",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=2 {ROLLOUT}.log_prob_micro_batch_size_per_gpu=8",
        "algorithm.filter_groups.enable=True reward_model.sandbox_fusion_url=http://x/run",
        f"{ACTOR}.loss_mode=kl_cov {ACTOR}.k_percent=0.5 {ACTOR}.ppo_kl_coef=2",
    )
    expected = {
        "algorithm.filter_groups.enable": True,
        "reward.sandbox_fusion.url": "http://x/run",
        f"{ACTOR}.policy_loss.loss_mode": "kl_cov",
        f"{ACTOR}.policy_loss.kl_cov_ratio": 0.005,
        f"{ACTOR}.policy_loss.ppo_kl_coef": 2,
    }
    assert {name: made.settings[name] for name in expected} == expected
    assert not made.remarks("unhandled")
    said = f"{ACTOR}.policy_loss.kl_cov_ratio=0.005 (a share, not percent)"
    assert any(said in item for item in made.report["run"]["notes"])


def test_a_run_that_names_no_manager_is_scored_by_verls(tmp_path: Path) -> None:
    """A project's own manager, which scores the toy, is none that verl would have taken."""
    for release, key in (("0.5.0", "reward_model.reward_manager"), (NEWEST[-1], "reward.reward_manager.name")):
        made = converted(tmp_path / release, f"{ROLLOUT}.name=hf", options=("--verl", release))
        assert made.settings[key] == "naive", release
        assert "scorers" in made.report["options"]["features"]
        assert key not in made.remarks("to do")


def test_names_that_no_release_has_and_keys_that_follow_others(tmp_path: Path) -> None:
    """Of two names of one setting the newer counts, whichever comes first, and the older one where it stands alone."""
    made = converted(
        tmp_path,
        f"algorithm.adv_estimator=gae {ROLLOUT}.name=vllm",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=4 {ROLLOUT}.log_prob_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.model.use_rmpad=True critic.model.use_rmpad=False critic.fsdp.param_offload=True",
        "reward_model.reward_manager=naive reward.reward_manager.name=dapo",
        "hydra.run.dir=/tmp/x",
        f"{ACTOR}.optim.warmup_style=constant {ACTOR}.optim.lr_scheduler_type=cosine",
        f"{ACTOR}.optim.clip_grad=0.7 {ACTOR}.grad_clip=0.1 critic.optim.warmup_style=cosine critic.grad_clip=0.2",
    )
    expected = {
        "actor_rollout_ref.model.use_remove_padding": True,
        "critic.model.use_remove_padding": False,  # it follows the actor's in a project
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 8,
        "critic.model.fsdp_config.param_offload": True,
        "reward.reward_manager.name": "dapo",
        f"{ACTOR}.optim.lr_scheduler_type": "cosine",
        f"{ACTOR}.grad_clip": 0.7,
        "critic.optim.lr_scheduler_type": "cosine",
        "critic.grad_clip": 0.2,
    }
    assert {key: made.settings[key] for key in expected} == expected
    assert "reward_managers" in made.report["options"]["features"]
    assert "hydra.run.dir" in made.remarks("dropped")
    assert not made.remarks("unhandled")
    notes = made.report["run"]["notes"]
    assert any("critic.model.use_rmpad as critic.model.use_remove_padding" in note for note in notes)


def test_what_verl_does_not_have_itself_or_one_model_alone_asks_for(tmp_path: Path) -> None:
    made = converted(
        tmp_path,
        "algorithm.adv_estimator=mine reward.reward_manager.name=ours distillation.enabled=True",
        f"{ROLLOUT}.name=vllm {ACTOR}.policy_loss.loss_mode=sapo {ROLLOUT}.log_prob_use_dynamic_bsz=True",
        f"+{ACTOR}.policy_loss.tau_neg=1.2 actor_rollout_ref.model.lora_adapter_path=/adapter",
    )
    why = made.remarks("to do")
    assert "custom/algorithms.py" in why["algorithm.adv_estimator"]
    assert "custom/reward_manager.py" in why["reward.reward_manager.name"]
    assert made.settings["distillation.enabled"] is True
    assert made.settings[f"{ACTOR}.tau_neg"] == 1.2
    assert {"distillation", "lora", "dynamic_bsz"} <= {*made.report["options"]["features"]}
    assert made.settings[f"{ACTOR}.use_dynamic_bsz"] is False


def test_the_reward_of_an_older_run(tmp_path: Path) -> None:
    overlong = "reward_model.reward_kwargs.overlong_buffer_cfg"
    lines = [f"+{overlong}.enable=True", f"+{overlong}.len=4", f"+{overlong}.penalty_factor=0.5"]
    lines += ["custom_reward_function.path=score.py", "custom_reward_function.name=mine"]
    lines += ["+custom_reward_function.reward_kwargs.strict=true", *BASE.split(), f"{ROLLOUT}.name=vllm"]
    score = "def mine(*arguments, **further): return 1.0\n"
    launch = " \\\n".join(["python3 -m verl.trainer.main_ppo", *lines])
    put(tmp_path, {"run.sh": launch, "score.py": score})
    made = imported(tmp_path / "p", tmp_path / "run.sh", "--verl", "0.6.1")
    expected = {
        "custom_reward_function.path": "p/custom/verl_reward.py",
        "custom_reward_function.name": "mine",
        "custom_reward_function.reward_kwargs.strict": True,
        "reward_model.overlong_buffer.enable": True,
        "reward_model.overlong_buffer.len": 4,
        "reward_model.overlong_buffer.penalty_factor": 0.5,
    }
    assert {key: made.settings[key] for key in expected} == expected
    assert made.read("p/custom/verl_reward.py").startswith("def mine(")


BAD = (
    ("empty.sh", "", "empty"),
    ("other.sh", "echo hello\n", "it starts no main_ppo"),
    ("eval.sh", "python -m verl.trainer.main_eval a=1\n", "another program of verl's"),
    ("sft_new.sh", "torchrun -m verl.trainer.sft_trainer a=1\n", "--recipe sft"),
    ("unknown.sh", f"{RUN} data.trian_batch_size=4\n", "did you mean data.train_batch_size?"),
    ("bad.sh", f"{RUN} 'data.train_files=[a'\n", "is no override for Hydra"),
    ("variable.sh", f"{RUN} actor_rollout_ref.model.path=$MODEL_PATH\n", "$MODEL_PATH"),
    ("config.sh", f"{RUN} --config-path=conf --config-name=mine\n", "mine.yaml is not here"),
    ("list.yaml", "a: 1\n", "no config of verl's trainer"),
    ("broken.yaml", "a: [\n", "not valid YAML"),
    (
        "near.yaml",
        "data: {train_batch_size: 4, train_batch_sizes: 5}\nactor_rollout_ref: {mine: 3}\nalgorithm: {}\n",
        "did you mean data.train_batch_size?",
    ),
    ("", "", "no such file"),
)


def test_bad_input(tmp_path: Path) -> None:
    for name, text, said in BAD:
        file = put(tmp_path, {name: text}) / name if name else tmp_path / "nowhere.sh"
        result = vextract("new", tmp_path / "p", "--verl", "0.6.1", "--from-verl-run", file)
        assert result.code == 2, name
        assert said in result.err
        assert "hint:" in result.err
        assert not (tmp_path / "p").exists()


def test_a_run_on_many_machines_is_lowered(tmp_path: Path) -> None:
    text = (
        f"ray start --head\nNNODES=4\n{RUN} --config-name=ppo_megatron_trainer {BASE} algorithm.adv_estimator=grpo \\\n"
        f"  {ACTOR}.megatron.tensor_model_parallel_size=8 {ACTOR}.ppo_micro_batch_size_per_gpu=2 \\\n"
        f"  {ROLLOUT}.name=vllm {ROLLOUT}.tensor_model_parallel_size=4 trainer.nnodes=$NNODES \\\n"
        "  trainer.n_gpus_per_node=8 $@\n"
    )
    made = imported(tmp_path / "p", put(tmp_path, {"run.sh": text}) / "run.sh", "--verl", "0.6.1")
    lowered, parallel = made.remarks("lowered").keys(), "tensor_model_parallel_size"
    assert {"trainer.nnodes", "trainer.n_gpus_per_node", f"{ROLLOUT}.{parallel}"} <= lowered
    assert f"{ACTOR}.megatron.{parallel}" in {*lowered, *made.remarks("dropped")}
    assert made.report["options"]["engine"] == "vllm"
    assert made.settings[f"{ROLLOUT}.{parallel}"] == 1


def test_an_export_beside_the_project_may_be_named_from_inside(
    projects: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(projects["toy"])
    monkeypatch.chdir(projects["toy"])
    assert vextract("export", "-o", "../beside").code == 0
    assert vextract("export", "-o", "../toy/out").code == 2
    assert vextract("export", "-o", tmp_path / "link" / "out").code == 2


# What is set, and what the refusal says: a project's own checks are an export's, too.
REFUSED = {
    "data.trian_batch_size=3": ("did you mean data.train_batch_size", ""),
    "preset=prime": ("", "--set local.prime.enable=false"),
    "reward.reward_model.enable=true": ("", "--set reward.reward_model.enable=false"),
    "data.train_files=a.parquet": ("data.train_files is set and data.val_files is not", "--set data.val_files to"),
    f"{ACTOR}.optim.lr=fast": ("optim.lr is 'fast', which is not a number", "--set"),
    "trainer.resume_mode=foo": ("trainer.resume_mode is 'foo'", "choose one of: auto, disable, resume_path"),
}


def test_export_refuses(projects: dict[str, Path], tmp_path: Path) -> None:
    toy = projects["toy"]
    taken = put(tmp_path / "taken", {"mine": "x"})
    for arguments in ((tmp_path,), (toy, "-o", toy / "out"), (toy, "-o", taken)):
        assert vextract("export", *arguments).code == 2
    assert [path.name for path in taken.iterdir()] == ["mine"]
    for setting, (message, hint) in REFUSED.items():
        result = vextract("export", toy, "-o", tmp_path / "o", *told(setting))
        assert (result.code, message in result.err, f"hint: {hint}" in result.err) == (2, True, True), result.err
    assert not (tmp_path / "o").exists()


def test_data_of_one_s_own_needs_no_dataset_hook(tmp_path: Path) -> None:
    project, out = tmp_path / "p", tmp_path / "out"
    assert vextract("new", project, "--recipe", "multiturn").code == 0
    (project / "p/custom/env_dataset.py").unlink()
    files = told("data.train_files=/d/t.parquet", "data.val_files=/d/v.parquet")
    result = vextract("export", project, "-o", out, "--json", *files)
    assert result.code == 0, result.err
    assert not (out / "adapters/dataset.py").exists()
    assert f"{ROLLOUT}.agent.default_agent_loop=project_environment" in result.json["overrides"]
    refused = vextract("export", project, "-o", tmp_path / "other")
    assert refused.code == 2
    assert "env_dataset.py: no such file" in refused.err


def test_unknown_keys_are_kept_aside(tmp_path: Path) -> None:
    text = f"{RUN} {BASE} {ROLLOUT}.name=vllm +algorithm.my_own=3 trainer.of_a_fork=$WHO/x\n"
    script = put(tmp_path, {"run.sh": text}) / "run.sh"
    options = ("--verl", PROJECT, "--run-verl", PROJECT)
    refused = vextract("new", tmp_path / "p", *options, "--from-verl-run", script)
    assert refused.code == 2
    assert "--keep-unknown" in refused.err
    made = imported(tmp_path / "p", script, *options, "--keep-unknown")
    assert "trainer.of_a_fork: $WHO/x\n" in made.read("config/unknown.yaml")
    (remark,) = [item for item in made.report["run"]["remarks"] if item["key"] == "trainer.of_a_fork"]
    assert "config/unknown.yaml" in remark["why"]


def test_defaults_of_a_resolved_config_are_no_statements(tmp_path: Path) -> None:
    config: Any = resolve(ReleaseConfig.of(source_of(PROJECT)).compose().config)
    config["data"]["train_batch_size"] = 48
    config["actor_rollout_ref"]["rollout"].update(name="vllm", tensor_model_parallel_size=4)
    file = put(tmp_path, {"config.yaml": yaml.safe_dump(config)}) / "config.yaml"
    made = imported(tmp_path / "p", file, "--verl", PROJECT)
    assert made.settings["data.train_batch_size"] == 48
    said = made.report["run"]["remarks"]
    assert len(said) < 10, said
