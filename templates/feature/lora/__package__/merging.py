# vextract:template - edit freely
"""An adapter merged into the model that it belongs to, for `export`."""

import json
import sys
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .output import install_command
from .run.base_models import POLICY, weights_digest
from .run.checkpoint_files import read_state
from .workers.models import ADAPTER_CONFIG


def merged_model(adapter: Path, base: Path | None) -> Any:
    """Return the model of an adapter, with the adapter merged into it by peft."""
    from .export import load_model

    try:
        from peft import PeftModel
    except ImportError as error:
        raise ConfigError(
            f"{adapter} holds a LoRA adapter, and peft is not installed", install_command("peft")
        ) from error
    trained_from = json.loads((adapter / ADAPTER_CONFIG).read_text())["base_model_name_or_path"]
    source = base or Path(trained_from)
    if source.is_absolute() and not (source / "config.json").is_file():
        raise ConfigError(
            f"the model that the adapter belongs to is not at {source}", "say where it is now: --base DIRECTORY"
        )
    state = adapter.parent / "trainer.pt"
    trained_with = read_state(state).get("base_models", {}).get(POLICY) if state.is_file() else None
    if trained_with not in (None, weights_digest(str(source))):
        print(f"warning: {source} is another model than the one that the adapter was trained with", file=sys.stderr)
    try:
        return PeftModel.from_pretrained(load_model(source), adapter).merge_and_unload(safe_merge=True)
    except (ValueError, RuntimeError) as error:
        raise ConfigError(f"{adapter} does not fit {source}: {error}", "--base names its own model") from error
