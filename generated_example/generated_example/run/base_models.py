# vextract:template base/__package__/run/base_models.py - edit freely
"""Which models a run reads besides its checkpoints: an adapter belongs to one, and the KL divergence is from one.

Another model of the same shape in its place would go unnoticed, so a checkpoint notes what the weights were.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .checkpoint_files import read_state
from .distributed import Ranks

POLICY, REFERENCE = "actor_rollout_ref.model.path", "actor_rollout_ref.ref.model.path"
# A digest of all bytes takes a minute for 30 GB; models that were trained differ in nearly every weight.
PLACES, PLACE_BYTES = 1024, 4096


def base_models(config: Any, ranks: Ranks) -> dict[str, str]:
    """Return a digest of the weights of the run's base models, by the setting that names each.

    Args:
        config: the whole config.
        ranks: this process among its peers; only rank 0 reads, and only what is on its disk, or in the hub's cache.
    """
    section = config.actor_rollout_ref
    paths = {POLICY: section.model.path, REFERENCE: (section.ref.model or {}).get("path")}

    def digests() -> dict[str, str]:
        found = {setting: weights_digest(path) for setting, path in paths.items() if path}
        return {setting: digest for setting, digest in found.items() if digest is not None}

    return ranks.on_driver(digests)


def check_base_models(resume: Path, config: Any, now: dict[str, str], in_use: set[str], ranks: Ranks) -> None:
    """Compare the base models with those that the run began with.

    Args:
        resume: the checkpoint that the run goes on from.
        config: the whole config.
        now: what `base_models` returns.
        in_use: the settings whose models this run reads besides the checkpoint.
        ranks: this process among its peers; only rank 0 reads.

    Raises:
        ConfigError: one is another model, and `local.check_base_models` is true.
    """
    then = ranks.on_driver(lambda: read_state(resume / "trainer.pt").get("base_models", {}))
    changed = sorted(setting for setting in in_use & set(now) & set(then) if now[setting] != then[setting])
    if not changed:
        return
    setting = changed[0]
    text = f"{setting} is another model than the one that {resume} was trained with: their weights differ"
    if config.local.check_base_models:
        raise ConfigError(
            text,
            f"set {setting} to where that model is; local.check_base_models=false if another one is meant; or "
            "trainer.resume_mode=disable to start anew",
        )
    if ranks.rank == 0:
        print(f"note: {text}", file=sys.stderr)


def weights_digest(path: str) -> str | None:
    """Return a SHA-256 of the names, sizes and 1,024 evenly spread places of a model's weight files; None: no files.

    Args:
        path: a directory, or a name on the hub that is in its cache.
    """
    directory = Path(path) if Path(path).is_dir() else _cached(path)
    files = sorted(directory.glob("*.safetensors")) or sorted(directory.glob("*.bin")) if directory else []
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb", buffering=0) as opened:
            for place in range(PLACES):
                opened.seek(max(size - PLACE_BYTES, 0) * place // (PLACES - 1))
                digest.update(opened.read(PLACE_BYTES))
    return digest.hexdigest() if files else None


def _cached(name: str) -> Path | None:
    """Return the directory in the hub's cache that a model is in; None: in none."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):
        return None
