"""Write a model of random weights with the toy task's tokenizer: `make_model.py PACKAGE PATH JSON`, in a project."""

import importlib
import json
import sys
from pathlib import Path


def make(package: str, path: Path, model: dict[str, int | bool]) -> None:
    """Write it, with the settings `model` of Qwen2's config; its weights are bfloat16 on the disk."""
    import torch
    from transformers import AutoConfig, Qwen2Config, Qwen2ForCausalLM

    toy = importlib.import_module(f"{package}.data.toy").ensure_toy_model(path)
    tokens = {name: getattr(AutoConfig.from_pretrained(toy), name) for name in ("pad_token_id", "eos_token_id")}
    device = "cuda" if torch.cuda.is_available() else "cpu"  # billions of random numbers take minutes on a CPU
    with torch.device(device):
        made = Qwen2ForCausalLM(Qwen2Config(**model, **tokens, bos_token_id=None))  # type: ignore[arg-type]
    made.generation_config.pad_token_id, made.generation_config.eos_token_id = tokens.values()
    made.to(torch.bfloat16).save_pretrained(toy)


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    make(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
