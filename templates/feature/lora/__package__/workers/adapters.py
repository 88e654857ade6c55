# vextract:template - edit freely
"""Whether a model is trained by an adapter (LoRA), and where the model and the adapter come from."""

from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError
from ..run.distributed import Ranks
from .model_files import ADAPTER_CONFIG

SECTION = "actor_rollout_ref.model"


class Start(NamedTuple):
    """Says where a model starts from.

    Attributes:
        model: a directory in Hugging Face format, or a name on the hub.
        adapter: a directory in peft's format, or a name on the hub; None: there is none yet.
    """

    model: str
    adapter: str | None


def wants_adapter(model: Any) -> bool:
    """Tell whether a `model` section asks for an adapter."""
    return bool(model.lora_rank > 0 or model.lora_adapter_path)


def starting_point(path: str, model: Any, ranks: Ranks) -> Start:
    """Return where to read the weights of a run that starts at `path`.

    Args:
        path: `model.path`, or the `actor` directory of a checkpoint. Of a run that trains an adapter this holds only
            the adapter, and the model is `model.path`.
        model: the `model` section.
        ranks: this process among its peers; only rank 0 looks at the disk.

    Raises:
        ConfigError: the one is an adapter, and the other asks for none, or the other way round.
    """
    wanted, resumes = wants_adapter(model), path != model.path
    holds_adapter = ranks.on_driver(lambda: (Path(path) / ADAPTER_CONFIG).is_file())
    if holds_adapter and not resumes:
        raise ConfigError(
            f"{path} holds a LoRA adapter, and no whole model",
            f"set {SECTION}.path to the model that it belongs to, and {SECTION}.lora_adapter_path to this directory",
        )
    if holds_adapter and not wanted:
        raise ConfigError(
            f"{path} holds a LoRA adapter, and {SECTION}.lora_rank is 0",
            f"set {SECTION}.lora_rank as in the run that wrote it; or trainer.resume_mode=disable to start anew",
        )
    if wanted and resumes and not holds_adapter:
        raise ConfigError(
            f"{path} holds all weights of a model, and {SECTION} asks for a LoRA adapter",
            f"{SECTION}.lora_rank=0 goes on with it; or trainer.resume_mode=disable {SECTION}.path={path} "
            "trains an adapter of it",
        )
    if not wanted:
        return Start(path, None)
    return Start(model.path, path if resumes else model.lora_adapter_path)
