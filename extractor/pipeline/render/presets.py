"""Read which settings the presets of a release set."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from extractor.pipeline.render import PRESETS, render_config
from extractor.values.configtree import flatten
from extractor.values.configtree.compose import read_yaml
from extractor.values.manifest import Manifest
from extractor.values.options import Options

ESTIMATOR = "algorithm.adv_estimator"
LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
# What tells presets apart, and what a run has that does not say.
_TELLING = {
    ESTIMATOR: "gae",
    LOSS: "vanilla",
    "algorithm.filter_groups.enable": False,
    "algorithm.norm_adv_by_std_in_grpo": True,
    "distillation.enabled": False,
    "local.prime.enable": False,
}


def read_presets(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return what each preset of a release sets, by dotted key."""
    features = tuple(feature.name for feature in manifest.features if feature.algorithms)
    files = render_config(manifest, Options("p", manifest.release, manifest.engines[0], features=features))
    return {
        PurePosixPath(path).stem: flatten(read_yaml(text) or {})
        for path, text in files.items()
        if path.startswith(PRESETS)
    }


def match_preset(flat: Mapping[str, Any], manifest: Manifest) -> str | None:
    """Return the preset that a run's settings match, or None.

    Args:
        flat: The run's settings, by dotted key.
        manifest: The release.
    """
    ours = {key: flat.get(key, default) for key, default in _TELLING.items()}
    same = {}
    for name, settings in read_presets(manifest).items():
        theirs = {key: settings.get(key, default) for key, default in _TELLING.items()}
        if ours[ESTIMATOR] == "gae" or ours[LOSS] == "vanilla":
            fits = theirs[ESTIMATOR] == ours[ESTIMATOR] and theirs[LOSS] == "vanilla"
        else:
            fits = theirs[LOSS] == ours[LOSS]
        if fits:
            same[name] = sum(theirs[key] == ours[key] for key in _TELLING)
    return max(sorted(same), key=lambda name: same[name], default=None)
