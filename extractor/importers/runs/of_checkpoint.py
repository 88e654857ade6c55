"""A checkpoint of verl's FSDP workers as a run: where it is, and what it tells of its model.

It has no settings of the run. Its tensors are read by the project (`run/from_verl.py`), not here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extractor.importers.runs.meaning import Remark
from extractor.values import readers
from extractor.values.configtree import Override
from extractor.values.errors import UsageError

_STEP = re.compile(r"global_step_\d+")
_LATEST = "latest_checkpointed_iteration.txt"
_BEGIN = "local.checkpoint.begin_from"
_MODEL = "actor_rollout_ref.model"


@dataclass(frozen=True)
class FoundCheckpoint:
    """Holds what a checkpoint says of its run, under verl's names, and what is left to its owner."""

    overrides: tuple[Override, ...]
    kept: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()


def find(path: Path) -> Path | None:
    """Return the global_step_N directory that a path is, lies in, or that is the last of the run that it is of."""
    place = path.absolute()
    if place.name in ("actor", "critic") and _STEP.fullmatch(place.parent.name):
        place = place.parent
    if (place / _LATEST).is_file():
        place = place / f"global_step_{readers.read_text(place / _LATEST).strip()}"
    actor = place / "actor"
    shares = any(actor.glob("model_world_size_*_rank_*.pt")) or (actor / "huggingface" / "config.json").is_file()
    return place if _STEP.fullmatch(place.name) and shares else None


def read(place: Path) -> FoundCheckpoint:
    """Read what a checkpoint says besides its tensors.

    Raises:
        UsageError: it is not complete.
    """
    actor = place / "actor"
    files = next((item for item in (actor / "huggingface", actor) if (item / "config.json").is_file()), None)
    if files is None:
        raise UsageError(f"{place}: no config.json of its model", hint="pass the directory as verl wrote it")
    overrides: dict[str, Any] = {
        "algorithm.adv_estimator": "gae" if (place / "critic").is_dir() else "grpo",
        "actor_rollout_ref.rollout.name": "hf",
    }
    remarks = [
        Remark(
            "algorithm.adv_estimator",
            overrides["algorithm.adv_estimator"],
            "to do",
            "a checkpoint has no settings: this, data, batches, rates and lengths are to be those of the run. Or make "
            f"the project from its launch script, and start it with {_BEGIN}={place}",
        )
    ]
    base = _entry(files / "config.json", "_name_or_path")
    overrides[f"{_MODEL}.path"] = base or str(files)
    why = "the model that the run began with, which the KL divergence is from"
    if not base:
        remarks.append(Remark(f"{_MODEL}.path", str(files), "to do", f"{why}: the checkpoint does not name it"))
    for file in (actor / "lora_train_meta.json", actor / "lora_adapter" / "adapter_config.json"):
        rank = _entry(file, "r")
        if rank:
            overrides[f"{_MODEL}.lora_rank"] = rank
            overrides[f"{_MODEL}.lora_alpha"] = _entry(file, "lora_alpha")
            break
    return FoundCheckpoint(
        tuple(Override("", key, value, f"{key}={value}") for key, value in overrides.items() if value is not None),
        {_BEGIN: str(place)},
        tuple(remarks),
    )


def _entry(file: Path, name: str) -> Any:
    """Return an entry of a JSON file; None: there is none."""
    if not file.is_file():
        return None
    try:
        found = readers.parse_json(readers.read_text(file))
    except ValueError as error:
        raise UsageError(f"{file}: no JSON: {error}", hint="pass the directory as verl wrote it") from None
    return found.get(name) if isinstance(found, dict) else None
