"""Runs of PRIME's own repository (PRIME-RL/PRIME) and of copies of it, under the names of upstream's recipe for it.

Its copy of verl trains by `main_ppo` what upstream's `recipe/prime` trains by `main_prime`, with earlier names.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.renaming import flat_settings, renamed
from extractor.importers.runs.run import Run
from extractor.importers.runs.turns import N
from extractor.values.configtree import Override
from extractor.values.configtree.compose import apply

_KIND = "reward_model.rm_type"
_SECTIONS = "reward_model.prime_model.", "reward_model.model."
_NAMES = {
    "data.filter_truncated": "data.filter_truncate",
    "data.n_samples": N,
    "reward_model.rm_coef": "algorithm.reward_dpo_coef",
    "verifier.reward_coef": "algorithm.reward_gt_coef",
}
# What its reward manager reads, which may be copied.
_READ = {"reward_model.rm_coef", "verifier.reward_coef"}
# Of these settings, by how they begin, the recipe has those that have not another name.
_ITS_OWN = (
    "data.accuracy_",
    "data.filter_accuracy",
    "data.filter_truncate",
    "data.oversample_factor",
    "reward_model.micro_batch_size",
    "reward_model.mini_batch_size",
    "reward_model.prime_",
)
# What upstream's recipe does without a setting.
_DONE = {
    "algorithm.adv_params.reward_model_gamma": 1.0,
    "algorithm.adv_params.verifier_gamma": 1.0,
    "reward_model.prime_lambda": 0,
    "reward_model.prime_model.input_tokenizer": None,
    "reward_model.prime_model.ref_type": "freeze",
}


def with_recipes_names(run: Run) -> Run:
    """Return a run of PRIME's own repository as one of upstream's recipe, with remarks; others as they are."""
    flat = flat_settings(run)
    if run.hints or flat.get(_KIND) != "prime":
        return run
    found: dict[str, Any] = {}
    gone: set[str | None] = {_KIND}
    remarks: list[Remark] = []
    for key, value in flat.items():
        in_section = key.startswith(_SECTIONS[0])
        name = _SECTIONS[1] + key.removeprefix(_SECTIONS[0]) if in_section else _NAMES.get(key, key)
        if key in _DONE and value == _DONE[key]:
            gone.add(key)
        elif name != key:
            gone.add(key)
            found[name] = value
            remarks.append(Remark(key, value, "renamed", f"upstream's recipe calls it {name}"))
        elif key.startswith(_ITS_OWN):  # also where only its own config says so
            found[name] = value
    run = renamed(run, gone, found, remarks, "++")
    defaults = copy.deepcopy(dict(run.defaults))
    for key in _READ.intersection(flat):
        apply(defaults, Override("++", key, flat[key], ""))
    return replace(run, defaults=defaults, has_process_rewards=True)
