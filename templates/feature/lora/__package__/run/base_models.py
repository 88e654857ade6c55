# vextract:template - edit freely
"""Which models a run reads besides its checkpoints: an adapter belongs to one, and the KL divergence is from one.

Another model of the same shape in its place would go unnoticed, so a checkpoint notes what the weights were.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..settings.teacher_models import MODELS, teacher_paths
from ..switches import DISTILLATION
from ..training.checkpoint import restoring
from ..workers.adapters import wants_adapter
from .checkpoint_files import read_state
from .distributed import Ranks

POLICY, REFERENCE = "actor_rollout_ref.model.path", "actor_rollout_ref.ref.model.path"
# A digest of all bytes takes a minute for 30 GB; models that were trained differ in nearly every weight.
PLACES, PLACE_BYTES = 1024, 4096


def base_models(config: Any, ranks: Ranks, resume: Path | None, *, reference: bool) -> dict[str, str]:
    """Return a digest of the weights of the run's base models, by the setting that names each.

    Args:
        config: the whole config.
        ranks: this process among its peers; only rank 0 reads, and only what is on its disk, or in the hub's cache.
        resume: the checkpoint that the run goes on from.
        reference: whether the run has a reference model.

    Raises:
        ConfigError: one is another model than the run began with, and `local.check_base_models` is true.
    """
    section = config.actor_rollout_ref
    paths = {POLICY: section.model.path, REFERENCE: (section.ref.model or {}).get("path")}
    if DISTILLATION:
        paths |= teacher_paths(config)

    def digests() -> dict[str, str]:
        found = {setting: weights_digest(path) for setting, path in paths.items() if path}
        return {setting: digest for setting, digest in found.items() if digest is not None}

    now = ranks.on_driver(digests)
    if resume is None:
        return now
    in_use = {POLICY} if wants_adapter(section.model) else set()
    if reference:
        in_use.add(REFERENCE if section.ref.model else POLICY)
    if DISTILLATION:
        in_use |= {setting for setting in now if setting.startswith(MODELS)}
    with restoring(resume):
        _compare(resume, config, {setting: now[setting] for setting in in_use & set(now)}, ranks)
    return now


def _compare(resume: Path, config: Any, now: dict[str, str], ranks: Ranks) -> None:
    """Compare the base models in use with those that the run began with."""
    then = ranks.on_driver(lambda: read_state(resume / "trainer.pt").get("base_models", {}))
    changed = sorted(setting for setting in set(now) & set(then) if now[setting] != then[setting])
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
