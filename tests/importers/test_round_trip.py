"""Export projects, make projects of runs, and refuse bad input of both."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from extractor.importers.config.project import load, read_files
from extractor.importers.config.release import ReleaseConfig
from extractor.values.configtree import resolve
from tests.importers.conftest import vextract
from tests.releases import NEWEST, newest_release, source_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("verl")]  # slow: it begins early, being long

PROJECT = NEWEST[-1]


def settings(project: Path) -> dict[str, Any]:
    return dict(load(read_files(project)).flat)


@pytest.mark.parametrize("recipe", ["toy", "gsm8k"])
def test_an_export_has_the_hooks_and_is_no_run_to_import(
    projects: dict[str, Path], recipe: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert vextract("export", projects[recipe], "-o", out).code == 0
    result = vextract("new", tmp_path / "back", "--verl", PROJECT, "--from-verl-run", out / "run.sh")
    assert result.code == 2
    assert "go on with the project that it was made from" in result.err
    for hook in sorted((projects[recipe] / recipe / "custom").glob("*.py")):
        assert (out / recipe / "custom" / hook.name).read_bytes() == hook.read_bytes()
    assert not (out / recipe / "training/trainer.py").exists()  # verl has its own


def test_settings_of_the_command_are_exported(projects: dict[str, Path], tmp_path: Path) -> None:
    changes = (
        "actor_rollout_ref.actor.optim.lr=3e-7",
        "data.train_batch_size=96",
        "algorithm.adv_estimator=rloo",
        "data.val_files=/d/v.parquet",
        "data.train_files=[/d/a.parquet,/d/b.parquet]",
        "actor_rollout_ref.actor.grad_clip=0.3",
    )
    arguments = [item for change in changes for item in ("--set", change)]
    assert vextract("export", projects["toy"], "-o", tmp_path / "out", *arguments).code == 0
    text = (tmp_path / "out" / "run.sh").read_text()
    assert all(change.partition("=")[0] + "=" in text for change in changes)
    # The training engine reads this one, the actor of earlier releases the other one.
    assert "actor_rollout_ref.actor.optim.clip_grad=0.3" in text


def test_passes_that_are_counted_become_their_size(verl: None, tmp_path: Path) -> None:
    assert vextract("new", tmp_path / "p", "--with", "short_names").code == 0
    result = vextract(
        "export", tmp_path / "p", "-o", tmp_path / "out", "--json", "--set", "local.gradient_accumulation_steps=4"
    )
    assert result.code == 0
    assert "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128" in (tmp_path / "out" / "run.sh").read_text()
    told = (tmp_path / "out" / "KEYS.md").read_text()
    assert "local.gradient_accumulation_steps is 4, counted for one GPU" in told
    assert "verl counts by the size of a pass" in told


@pytest.mark.parametrize("release", newest_release())
def test_edits_to_vendored_files_become_a_patch(release: str, tmp_path: Path) -> None:
    project, out = tmp_path / "p", tmp_path / "out"
    assert vextract("new", project, "--verl", release).code == 0
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
    original = source_of(release).files[edit["upstream_path"]]
    place = tmp_path / "checkout" / edit["upstream_path"]
    place.parent.mkdir(parents=True)
    place.write_bytes(original)
    subprocess.run(["git", "apply", "--check", str(out / "upstream.patch")], cwd=tmp_path / "checkout", check=True)
    subprocess.run(["git", "apply", str(out / "upstream.patch")], cwd=tmp_path / "checkout", check=True)
    # Between what comes before and after it in the project; upstream may have more there.
    lines = place.read_text().splitlines()
    assert lines.count("EDITED = 1") == 1
    lines.remove("EDITED = 1")
    assert [line for line in lines if line] == [line for line in original.decode().splitlines() if line]


@pytest.mark.parametrize("fits", [True, False])
def test_an_edit_that_does_not_fit_is_listed(fits: bool, tmp_path: Path) -> None:
    """One beside the first line, which verl's file has not, fits; one of a line that a fix has changed does not."""
    project, out = tmp_path / "p", tmp_path / "out"
    assert vextract("new", project, "--verl", PROJECT).code == 0
    edited = project / "p/vendored/algorithms/core_algos.py"
    upstream = source_of(PROJECT).read("verl/trainer/ppo/core_algos.py").splitlines()
    first, *lines = edited.read_text().splitlines()
    changed = next(line for line in lines if line.startswith(" ") and line not in upstream)
    line = first if fits else changed
    edited.write_text(edited.read_text().replace(line, f"{line}\n# mine" if fits else f"{line} + 0", 1))
    (edit,) = vextract("export", project, "-o", out, "--json").json["edits"]
    text = (out / "UPSTREAM.md").read_text()
    assert edit["applies"] is fits
    assert fits or edit["why"] in text
    assert ("+# mine" in (out / "upstream.patch").read_text()) if fits else edit["why"].startswith("changes lines")
    assert "core_algos.py" in text


RUN = "python -m verl.trainer.main_ppo"


def test_a_script_from_between_two_releases(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(
        f"{RUN} actor_rollout_ref.model.path=/m data.train_files=/d/t.parquet data.val_files=/d/v.parquet \\\n"
        "  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.update_weights_bucket_megabytes=512 \\\n"
        "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 algorithm.filter_groups.enable=True \\\n"
        "  reward_model.sandbox_fusion_url=http://x/run actor_rollout_ref.actor.fsdp_config.grad_offload=False\n"
    )
    result = vextract("new", tmp_path / "p", "--verl", PROJECT, "--from-verl-run", file, "--json")
    assert result.code == 0, result.err
    remarks = result.json["run"]["remarks"]
    assert not [item for item in remarks if item["what"] == "unhandled"]
    made = settings(tmp_path / "p")
    assert made["algorithm.filter_groups.enable"] is True
    assert made["reward.sandbox_fusion.url"] == "http://x/run"


BASE = "data.train_files=/d/t.parquet data.val_files=/d/v.parquet actor_rollout_ref.model.path=/m"


def converted(tmp_path: Path, *lines: str) -> tuple[dict[str, Any], Any]:
    """The config of a project made of a run, and the report."""
    file = tmp_path / "run.sh"
    file.write_text(f"{RUN} {BASE} \\\n  " + " \\\n  ".join(lines) + "\n")
    result = vextract("new", tmp_path / "p", "--verl", PROJECT, "--from-verl-run", file, "--json")
    assert result.code == 0, result.err
    return settings(tmp_path / "p"), result.json


@pytest.mark.parametrize(
    ("release", "key"),
    [
        ("0.4.0", "reward_model.reward_manager"),
        ("0.5.0", "reward_model.reward_manager"),
        ("0.7.0", "reward_manager.name"),
        (NEWEST[-1], "reward.reward_manager.name"),
    ],
)
def test_a_run_that_names_no_manager_is_scored_by_verls(tmp_path: Path, release: str, key: str) -> None:
    """A project's own manager, which scores the toy, is none that verl would have taken."""
    file = tmp_path / "run.sh"
    file.write_text(f"{RUN} {BASE} actor_rollout_ref.rollout.name=hf\n")
    result = vextract("new", tmp_path / "p", "--verl", release, "--from-verl-run", file, "--json")
    assert result.code == 0, result.err
    assert settings(tmp_path / "p")[key] == "naive"
    assert "scorers" in result.json["options"]["features"]
    assert not [item for item in result.json["run"]["remarks"] if item["key"] == key and item["what"] == "to do"]


def test_names_that_no_release_has_and_keys_that_follow_others(tmp_path: Path) -> None:
    made, report = converted(
        tmp_path,
        "algorithm.adv_estimator=gae actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.model.use_rmpad=True critic.model.use_rmpad=False critic.fsdp.param_offload=True",
        "reward_model.reward_manager=dapo reward_model.overlong_buffer.enable=True reward_model.overlong_buffer.len=8",
        "actor_rollout_ref.actor.fsdp_config.grad_offload=True hydra.run.dir=/tmp/x",
        "actor_rollout_ref.ref.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap=[A]",
    )
    assert made["actor_rollout_ref.model.use_remove_padding"] is True
    assert made["critic.model.use_remove_padding"] is False  # it follows the actor's in a project
    assert made["actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"] == 8
    assert made["critic.model.fsdp_config.param_offload"] is True
    assert made["reward.reward_manager.name"] == "dapo"
    assert made["reward.reward_kwargs.overlong_buffer_cfg.enable"] is True
    assert made["reward.reward_kwargs.overlong_buffer_cfg.len"] == 8
    assert "reward_managers" in report["options"]["features"]
    remarks = {item["key"]: item["what"] for item in report["run"]["remarks"]}
    assert remarks["actor_rollout_ref.actor.fsdp_config.grad_offload"] == "dropped"
    assert made["actor_rollout_ref.ref.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap"] == ["A"]
    assert remarks["hydra.run.dir"] == "dropped"
    assert any("critic.model.use_rmpad as critic.model.use_remove_padding" in note for note in report["run"]["notes"])


def test_a_loss_of_a_forks_actor_is_that_of_releases_and_percent_are_a_share(tmp_path: Path) -> None:
    actor = "actor_rollout_ref.actor"
    made, report = converted(
        tmp_path,
        "algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=4",
        f"{actor}.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
        f"{actor}.loss_mode=kl_cov {actor}.k_percent=0.5 {actor}.ppo_kl_coef=2",
    )
    assert made[f"{actor}.policy_loss.loss_mode"] == "kl_cov"
    assert made[f"{actor}.policy_loss.kl_cov_ratio"] == 0.005
    assert made[f"{actor}.policy_loss.ppo_kl_coef"] == 2
    assert any(
        f"{actor}.policy_loss.kl_cov_ratio=0.005 (a share, not percent)" in item for item in report["run"]["notes"]
    )


@pytest.mark.parametrize(
    ("estimator", "key", "feature"),
    [
        ("gae", "critic.model.use_remove_padding", "remove_padding"),
        pytest.param("gae", "critic.use_dynamic_bsz", "dynamic_bsz", marks=pytest.mark.thorough),
        ("grpo", "actor_rollout_ref.ref.log_prob_use_dynamic_bsz", "dynamic_bsz"),
        pytest.param(
            "grpo", "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz", "dynamic_bsz", marks=pytest.mark.thorough
        ),
    ],
)
def test_what_one_model_alone_asks_for_comes_with_its_feature(
    tmp_path: Path, estimator: str, key: str, feature: str
) -> None:
    group = "actor_rollout_ref.rollout.n=4" if estimator == "grpo" else "critic.model.path=/m"
    made, report = converted(tmp_path, f"algorithm.adv_estimator={estimator} {group}", f"{key}=True")
    assert made[key] is True
    assert feature in report["options"]["features"]
    assert made["actor_rollout_ref.actor.use_dynamic_bsz"] is False


def test_of_two_names_of_one_setting_the_newer_counts(tmp_path: Path) -> None:
    """Whichever of them comes first; the older one counts where it stands alone."""
    made, report = converted(
        tmp_path,
        "algorithm.adv_estimator=gae",
        "actor_rollout_ref.actor.optim.warmup_style=constant actor_rollout_ref.actor.optim.lr_scheduler_type=cosine",
        "actor_rollout_ref.actor.optim.clip_grad=0.7 actor_rollout_ref.actor.grad_clip=0.1",
        "reward.reward_manager.name=dapo reward_model.reward_manager=naive",
        "critic.optim.warmup_style=cosine critic.grad_clip=0.2",
    )
    assert made["actor_rollout_ref.actor.optim.lr_scheduler_type"] == "cosine"
    assert made["actor_rollout_ref.actor.grad_clip"] == 0.7
    assert made["reward.reward_manager.name"] == "dapo"
    assert made["critic.optim.lr_scheduler_type"] == "cosine"
    assert made["critic.grad_clip"] == 0.2
    assert [item for item in report["run"]["remarks"] if item["what"] == "unhandled"] == []


def test_what_verl_does_not_have_itself(tmp_path: Path) -> None:
    made, report = converted(
        tmp_path,
        "algorithm.adv_estimator=mine reward.reward_manager.name=ours distillation.enabled=True",
        "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.policy_loss.loss_mode=sapo",
        "+actor_rollout_ref.actor.policy_loss.tau_neg=1.2 actor_rollout_ref.model.lora_adapter_path=/adapter",
    )
    why = {item["key"]: item["why"] for item in report["run"]["remarks"]}  # the last of each
    assert "custom/algorithms.py" in why["algorithm.adv_estimator"]
    assert "custom/reward_manager.py" in why["reward.reward_manager.name"]
    assert made["distillation.enabled"] is True
    assert "distillation" in report["options"]["features"]
    assert made["actor_rollout_ref.actor.tau_neg"] == 1.2
    assert "lora" in report["options"]["features"]


REWARD = """\
+reward_model.reward_kwargs.overlong_buffer_cfg.enable=True
+reward_model.reward_kwargs.overlong_buffer_cfg.len=4
+reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor=0.5
custom_reward_function.path=score.py
custom_reward_function.name=mine
+custom_reward_function.reward_kwargs.strict=true
data.train_files=/d/t.parquet
data.val_files=/d/v.parquet
actor_rollout_ref.model.path=/m
actor_rollout_ref.rollout.name=vllm
"""


@pytest.mark.parametrize(
    ("release", "function", "overlong"),
    [
        ("0.6.1", "custom_reward_function", "reward_model.overlong_buffer"),
        (PROJECT, "reward.custom_reward_function", "reward.reward_kwargs.overlong_buffer_cfg"),
    ],
)
def test_the_reward_of_an_older_run(release: str, function: str, overlong: str, tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def mine(*arguments, **further): return 1.0\n")
    (tmp_path / "run.txt").write_text(REWARD)
    result = vextract("new", tmp_path / "p", "--verl", release, "--from-verl-run", tmp_path / "run.txt")
    assert result.code == 0, result.err
    made = settings(tmp_path / "p")
    assert made[f"{function}.path"] == "p/custom/verl_reward.py"
    assert made[f"{function}.name"] == "mine"
    assert made[f"{function}.reward_kwargs.strict"] is True
    assert (made[f"{overlong}.enable"], made[f"{overlong}.len"], made[f"{overlong}.penalty_factor"]) == (True, 4, 0.5)
    assert (tmp_path / "p/p/custom/verl_reward.py").read_text().startswith("def mine(")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.sh", "", "empty"),
        ("other.sh", "echo hello\n", "it starts no main_ppo"),
        ("eval.sh", "python -m verl.trainer.main_eval a=1\n", "another program of verl's"),
        ("sft.sh", "torchrun -m verl.trainer.fsdp_sft_trainer a=1\n", "verl's supervised training"),
        ("sft_new.sh", "torchrun -m verl.trainer.sft_trainer a=1\n", "--recipe sft"),
        ("unknown.sh", f"{RUN} data.trian_batch_size=4\n", "did you mean data.train_batch_size?"),
        ("bad.sh", f"{RUN} 'data.train_files=[a'\n", "is no override for Hydra"),
        ("variable.sh", f"{RUN} actor_rollout_ref.model.path=$MODEL_PATH\n", "$MODEL_PATH"),
        ("config.sh", f"{RUN} --config-path=conf --config-name=mine\n", "mine.yaml is not here"),
        ("list.yaml", "a: 1\n", "no config of verl's trainer"),
        ("broken.yaml", "a: [\n", "not valid YAML"),
        ("none.yaml", "data: {mine: 1}\nalgorithm: {mine: 2}\nactor_rollout_ref: {mine: 3}\n", "none of its 3"),
        (
            "near.yaml",
            "data: {train_batch_size: 4, train_batch_sizes: 5}\nactor_rollout_ref: {mine: 3}\nalgorithm: {}\n",
            "did you mean data.train_batch_size?",
        ),
    ],
)
def test_bad_input(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    result = vextract("new", tmp_path / "p", "--verl", "0.6.1", "--from-verl-run", file)
    assert result.code == 2
    assert said in result.err
    assert "hint:" in result.err
    assert not (tmp_path / "p").exists()


def test_a_missing_file(tmp_path: Path) -> None:
    result = vextract("new", tmp_path / "p", "--verl", "0.6.1", "--from-verl-run", tmp_path / "nowhere.sh")
    assert result.code == 2
    assert "no such file" in result.err


def test_a_run_on_many_machines_is_lowered(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(
        "ray start --head\n"
        "NNODES=4\n"
        f"{RUN} --config-name=ppo_megatron_trainer \\\n"
        "  algorithm.adv_estimator=grpo data.train_files=/d/t.parquet data.val_files=/d/v.parquet \\\n"
        "  actor_rollout_ref.model.path=/m actor_rollout_ref.actor.megatron.tensor_model_parallel_size=8 \\\n"
        "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 actor_rollout_ref.rollout.name=vllm \\\n"
        "  actor_rollout_ref.rollout.tensor_model_parallel_size=4 trainer.nnodes=$NNODES trainer.n_gpus_per_node=8 $@\n"
    )
    result = vextract("new", tmp_path / "p", "--verl", "0.6.1", "--from-verl-run", file, "--json")
    assert result.code == 0, result.err
    remarks = {item["key"]: item["what"] for item in result.json["run"]["remarks"]}
    assert remarks["trainer.nnodes"] == "lowered"
    assert remarks["trainer.n_gpus_per_node"] == "lowered"
    assert remarks["actor_rollout_ref.rollout.tensor_model_parallel_size"] == "lowered"
    assert remarks["actor_rollout_ref.actor.megatron.tensor_model_parallel_size"] in ("lowered", "dropped")
    assert result.json["options"]["engine"] == "vllm"
    assert settings(tmp_path / "p")["actor_rollout_ref.rollout.tensor_model_parallel_size"] == 1


def test_an_export_beside_the_project_may_be_named_from_inside(
    projects: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(projects["toy"])
    monkeypatch.chdir(projects["toy"])
    assert vextract("export", "-o", "../beside", "--dry-run").code == 0
    assert vextract("export", "-o", "../toy/out", "--dry-run").code == 2
    assert vextract("export", "-o", tmp_path / "link" / "out", "--dry-run").code == 2


def test_export_refuses(projects: dict[str, Path], tmp_path: Path) -> None:
    assert vextract("export", projects["toy"], "--to", "trl").code == 2
    assert vextract("export", tmp_path).code == 2
    assert vextract("export", projects["toy"], "-o", projects["toy"] / "out").code == 2
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("x")
    assert vextract("export", projects["toy"], "-o", taken).code == 2
    assert [path.name for path in taken.iterdir()] == ["mine"]
    result = vextract("export", projects["toy"], "-o", tmp_path / "o", "--set", "data.trian_batch_size=3")
    assert result.code == 2
    assert "did you mean data.train_batch_size" in result.err
    for setting, key in (
        ("preset=prime", "local.prime.enable"),
        ("preset=distill", "distillation.enabled"),
        ("reward.reward_model.enable=true", "reward.reward_model.enable"),
    ):
        result = vextract("export", projects["toy"], "-o", tmp_path / "o", "--set", setting)
        assert result.code == 2
        assert f"hint: --set {key}=false" in result.err
    result = vextract("export", projects["toy"], "-o", tmp_path / "o", "--verl", "0.7.1")
    assert result.code == 2
    assert f"an export is for the project's own release, {PROJECT}" in result.err
    assert "hint: in a copy of the project: vextract upgrade --to 0.7.1; then export that" in result.err
    assert not (tmp_path / "o").exists()


def test_an_export_whose_path_hydra_cannot_be_told_says_so(projects: dict[str, Path], tmp_path: Path) -> None:
    place = tmp_path / "it's here"
    assert vextract("export", projects["toy"], "-o", place).code == 0
    done = subprocess.run(["bash", place / "run.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"no apostrophe may be in its path: {place}\n" in done.stderr


def test_an_export_refuses_what_the_project_does(projects: dict[str, Path], tmp_path: Path) -> None:
    for setting, message, hint in (
        ("data.train_files=a.parquet", "data.train_files is set and data.val_files is not", "--set data.val_files to"),
        (
            "data.val_files=[a.parquet]",
            "data.val_files is set and data.train_files",
            "--set data.train_files to a file",
        ),
        ("trainer.total_training_steps=many", "is 'many', which is not a whole number", "--set"),
        ("actor_rollout_ref.actor.optim.lr=fast", "optim.lr is 'fast', which is not a number", "--set"),
        ("trainer.val_before_train=often", "is 'often', which is not true or false", "--set"),
        ("trainer.resume_mode=foo", "trainer.resume_mode is 'foo'", "choose one of: auto, disable, resume_path"),
    ):
        result = vextract("export", projects["toy"], "-o", tmp_path / "o", "--set", setting)
        assert result.code == 2
        assert message in result.err
        assert f"hint: {hint}" in result.err
        assert not (tmp_path / "o").exists()


def test_data_of_one_s_own_needs_no_dataset_hook(tmp_path: Path) -> None:
    project, out = tmp_path / "p", tmp_path / "out"
    assert vextract("new", project, "--recipe", "multiturn").code == 0
    (project / "p/custom/env_dataset.py").unlink()
    files = ("--set", "data.train_files=/d/t.parquet", "--set", "data.val_files=/d/v.parquet")
    result = vextract("export", project, "-o", out, "--json", *files)
    assert result.code == 0, result.err
    assert not (out / "adapters/dataset.py").exists()
    assert "actor_rollout_ref.rollout.agent.default_agent_loop=project_environment" in result.json["overrides"]
    refused = vextract("export", project, "-o", tmp_path / "other")
    assert refused.code == 2
    assert "env_dataset.py: no such file" in refused.err


def test_unknown_keys_are_kept_aside(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"{RUN} {BASE} actor_rollout_ref.rollout.name=vllm +algorithm.my_own=3 trainer.of_a_fork=$WHO/x\n")
    refused = vextract("new", tmp_path / "p", "--verl", PROJECT, "--run-verl", PROJECT, "--from-verl-run", file)
    assert refused.code == 2
    assert "--keep-unknown" in refused.err
    arguments = ("--verl", PROJECT, "--run-verl", PROJECT, "--keep-unknown", "--from-verl-run", file, "--json")
    result = vextract("new", tmp_path / "p", *arguments)
    assert result.code == 0, result.err
    assert "trainer.of_a_fork: $WHO/x\n" in (tmp_path / "p/config/unknown.yaml").read_text()
    (remark,) = [item for item in result.json["run"]["remarks"] if item["key"] == "trainer.of_a_fork"]
    assert "config/unknown.yaml" in remark["why"]


def test_defaults_of_a_resolved_config_are_no_statements(tmp_path: Path) -> None:
    config = resolve(ReleaseConfig.of(source_of(PROJECT)).compose().config)
    config["data"]["train_batch_size"] = 48
    config["actor_rollout_ref"]["rollout"]["name"] = "vllm"
    config["actor_rollout_ref"]["rollout"]["tensor_model_parallel_size"] = 4
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    result = vextract("new", tmp_path / "p", "--verl", PROJECT, "--from-verl-run", file, "--json")
    assert result.code == 0, result.err
    assert settings(tmp_path / "p")["data.train_batch_size"] == 48
    said = result.json["run"]["remarks"]
    assert len(said) < 10, said
