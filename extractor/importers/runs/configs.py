"""Configs of runs: of verl's trainer, of TRL and of EasyR1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from extractor.importers.runs import overrides
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.other_libraries.translation import Translated
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.run import Run
from extractor.values.configtree.compose import read_yaml
from extractor.values.errors import UsageError


def yaml_of(path: Path, text: str) -> Any:
    """Return what is in a YAML file; where it is a config of TRL's, of a key that is there twice the last.

    Raises:
        UsageError: it is no YAML.
    """
    try:
        config = read_yaml(text, last_counts=True)
        if not trl.is_config(config):
            config = read_yaml(text)
        return config
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}", hint="correct the file") from None


def of_config(path: Path, config: Any, places: RunFolders) -> Run:
    """Return the run of a config, or of the list of overrides that Hydra writes.

    Args:
        path: Of its file.
        config: What is in it.
        places: Where its relative paths may lead.

    Raises:
        UsageError: it is none of a trainer.
    """
    config = _unwrap(config)
    if isinstance(config, list) and all(isinstance(item, str) for item in config):
        # Hydra's own .hydra/overrides.yaml
        return Run(str(path), overrides.read(config, str(path)))
    if easyr1.is_config(config):
        return translated(path, easyr1.translated(config, places))
    if trl.is_config(config):
        return translated(path, trl.of_config(config, path))
    if not isinstance(config, dict) or not is_config(config):
        raise UsageError(
            f"{path}: no config of verl's trainer: neither data nor actor_rollout_ref in it",
            hint="pass what `--cfg job --resolve` prints, .hydra/config.yaml of a run, or a job that launches one",
        )
    config.pop("hydra", None)
    return Run(str(path), resolved=config)


def is_config(body: Any) -> bool:
    """Tell whether a YAML is a config of verl's trainer, in its form or EasyR1's."""
    return isinstance(body, dict) and bool({"data", "actor_rollout_ref"} & body.keys())


def _unwrap(body: Any) -> Any:
    """Return a config without what Weights & Biases wraps each of its values in."""
    if not isinstance(body, dict):
        return body
    own = {key: value for key, value in body.items() if key != "_wandb"}
    is_wrapped = own and all(isinstance(item, dict) and "value" in item and len(item) < 4 for item in own.values())
    return {key: item["value"] for key, item in own.items()} if is_wrapped else own


def translated(path: Path, found: Translated) -> Run:
    """Return a run of another library, in verl's names."""
    scored, written = found.scored_by, found.written
    return Run(str(path), found.overrides, remarks=found.remarks, scored_by=scored, written=written)
