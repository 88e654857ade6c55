"""A setting that is made and changes nothing is said to be idle; one that changes something is not."""

import json
from pathlib import Path

import pytest

from tests.project.running import check_forked, overrides
from tests.project.support import TOGETHER, Configuration, Maker, copy_of
from tests.releases import newest_release

pytestmark = pytest.mark.slow

NOTES = """
import copy, json, sys, yaml
from pathlib import Path
from omegaconf import OmegaConf
from toy.settings.flags import ConfigFiles
from toy.settings.loading import load_config
from toy.settings.setting_checks import config_notes
files, found = ConfigFiles(Path("config").resolve()), []
default = load_config(files, [])  # to compose one takes half a second
for words in json.loads(sys.argv[1]):
    config = copy.deepcopy(default)
    for key, _, value in (word.partition("=") for word in words):
        OmegaConf.update(config, key, yaml.safe_load(value), force_add=True)
    found.append([*config_notes(config, words)])
print(json.dumps(found))
"""
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
CLIP = f"{ACTOR}.clip_ratio"
UNBOUND = f"{CLIP}_low=null {CLIP}_high=null"
# What is made, the first release that has it, and what is said of the first setting: nothing, or a part of it.
MADE = [
    (f"{CLIP}=0.1", "0.4.0", UNBOUND),
    (f"{CLIP}=0.1 {UNBOUND}", "0.4.0", ""),
    (f"{CLIP}=0.1 {CLIP}_high=null", "0.4.0", ""),
    (f"{CLIP}_c=5.0", "0.4.0", ""),
    (f"{CLIP}_c=5.0 {ACTOR}.policy_loss.loss_mode=gspo", "0.6.0", "loss_mode=gspo, but with"),
    (f"{ACTOR}.policy_loss.ppo_kl_coef=0.2", "0.5.0", "but with kl_cov"),
    (f"{ACTOR}.policy_loss.ppo_kl_coef=0.2 {ACTOR}.policy_loss.loss_mode=kl_cov", "0.5.0", ""),
    (f"{ACTOR}.loss_scale_factor=8", "0.8.0", f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm"),
    ("algorithm.gamma=0.9", "0.4.1", "adv_estimator=grpo, but with"),
    ("algorithm.gamma=0.9 algorithm.adv_estimator=gae", "0.4.0", ""),
    ("algorithm.norm_adv_by_std_in_grpo=false algorithm.adv_estimator=rloo", "0.4.1", "adv_estimator=rloo, but with"),
    (f"{ACTOR}.optim.lr_warmup_steps_ratio=0.1 {ACTOR}.optim.lr_warmup_steps=5", "0.4.0", "lr_warmup_steps=-1"),
    (f"{ACTOR}.optim.min_lr_ratio=0.1", "0.4.0", "=cosine"),
    (f"{ACTOR}.ppo_micro_batch_size_per_gpu=4 {ACTOR}.use_dynamic_bsz=true", "0.4.0", f"{ACTOR}.use_dynamic_bsz=false"),
    (f"{ACTOR}.ppo_max_token_len_per_gpu=4000", "0.4.0", f"{ACTOR}.use_dynamic_bsz=true"),
    (f"{ROLLOUT}.val_kwargs.top_p=0.5", "0.4.0", f"{ROLLOUT}.val_kwargs.do_sample=true"),
    (f"{ROLLOUT}.temperature=0.5 {ROLLOUT}.do_sample=false", "0.4.0", f"{ROLLOUT}.do_sample=true"),
    (f"{ACTOR}.fsdp_config.fsdp_size=2", "0.4.0", "in one process"),
    ("data.seed=3 data.shuffle=false", "0.7.0", "data.shuffle=true"),
    ("local.reward.timeout_score=-1.0", "0.4.0", "while local.reward.timeout is null"),
    ("reward_model.reward_kwargs.weights={acc:1.0}", "until 0.7.0", ""),
    ("local.reward_model.micro_batch_size_per_gpu=4", "0.7.1", "reward.reward_model.enable=true"),
]


@pytest.mark.parametrize("release", newest_release())
def test_what_changes_nothing_is_said(made: Maker, release: str) -> None:
    features = ("critic", "dynamic_bsz", "reward_model", "reward_processes")
    root = made(Configuration(release, "hf", features=features)).root
    here = [
        (words.split(), said)
        for words, first, said in MADE
        if (release <= first.removeprefix("until ") if first.startswith("until ") else release >= first)
    ]
    done = check_forked(root, "-c", NOTES, json.dumps([words for words, _ in here]))
    wrong = []
    for (words, said), notes in zip(here, json.loads(done.stdout.splitlines()[-1]), strict=True):
        key = words[0].partition("=")[0]
        found = [note for note in notes if note.startswith(f"{key} has no effect")]
        if len(found) != bool(said) or (said and said not in found[0]):
            wrong.append((words, notes))
    assert wrong == []


@pytest.mark.parametrize("release", newest_release())
def test_what_a_model_or_a_manager_makes_idle_is_said(made: Maker, tmp_path: Path, release: str) -> None:
    """Dropout in updates only, steps that bfloat16 rounds away, settings that verl's own manager does not take."""
    root = copy_of(made(Configuration(release, "hf", features=(*TOGETHER, "watch"))), tmp_path)
    (root / "score.py").write_text("def compute_score(**_): return 1.0\n", encoding="utf-8")
    section = ("reward.", "reward.reward_manager.name") if release >= "0.7.1" else ("", "reward_model.reward_manager")
    dropout, dtype = "+actor_rollout_ref.model.override_config.attention_dropout", f"{ACTOR}.fsdp_config.model_dtype"
    rest = (f"{ACTOR}.optim.lr=1e-6", f"{section[0]}custom_reward_function.path=score.py", "local.reward.timeout=5")
    settings = (f"{dropout}=0.1", f"{dtype}=bf16", f"{section[1]}=naive")
    plain = (f"{dropout}=0.0", f"{dtype}=fp32", f"{section[1]}=env")
    found = []
    for changed in (settings, plain):
        words = overrides(*changed, *rest, "trainer.total_training_steps=1", "local.save_last=false")
        done = check_forked(root, "main.py", *words)
        found.append([line for line in done.stderr.splitlines() if line.startswith("note: ")])
    assert [note for note in found[0] if f"{dropout}=0.0" in note and "updates only" in note]
    assert [note for note in found[0] if "lr=1e-06" in note and f"{dtype}=fp32" in note]
    assert [note for note in found[0] if "local.reward.timeout has no effect" in note]
    assert [note for note in found[1] if "averages each micro-batch" not in note] == []
