# vextract:template - edit freely
"""Write a checkpoint as a plain model in Hugging Face format.

    python -m PACKAGE.export checkpoints/PROJECT/RUN/global_step_20 OUT     a checkpoint
    python -m PACKAGE.export checkpoints/PROJECT/RUN OUT                    the run's last one; --best: its best

`global_step_N/actor` is in this format already, unless the run trained a LoRA adapter: then it holds the adapter. What
this adds: the checkpoint is complete, an adapter merged, the dtype changed, and OUT is there whole or not at all.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .data.images import class_at, save_processor
from .errors import ConfigError, report_error
from .hub import card, upload
from .merging import merged_model
from .output import say
from .run.checkpoint_files import MANIFEST, sync_tree, what_has_changed, what_is_wrong
from .run.process import quiet
from .shims.device import to_dtype
from .switches import HUB, LORA, MULTIMODAL
from .training.checkpoint import all_checkpoints, best_of

DTYPES = ("float32", "bfloat16", "float16")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with these command-line arguments; returns the exit code: 0 done, 2 the arguments are at fault."""
    description = "Write a checkpoint as a plain model in Hugging Face format, with a LoRA adapter merged into it."
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.export", description=description)
    parser.add_argument("checkpoint", type=Path, help="a global_step_N directory, or a run's directory")
    parser.add_argument("out", type=Path, help="the directory to write, which must not be there yet")
    parser.add_argument("--best", action="store_true", help="of a run: its best checkpoint, by validation")
    parser.add_argument("--dtype", choices=DTYPES, help="of the weights; default: as they are")
    if LORA:
        parser.add_argument("--base", type=Path, help="where the model of a LoRA adapter is now, if it was moved")
    if HUB:
        parser.add_argument("--push-to-hub", metavar="NAME", help="and upload it to this repository: user/model")
        parser.add_argument("--private", action="store_true", help="of a repository that is made: nobody else sees it")
    else:
        parser.add_argument("--push-to-hub", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    quiet()
    try:
        if not HUB and chosen.push_to_hub is not None:
            raise ConfigError("this project was made without --push-to-hub", "vextract add hub")
        checkpoint = find_checkpoint(chosen.checkpoint, best=chosen.best)
        export(checkpoint, chosen.out, dtype=chosen.dtype, base=chosen.base if LORA else None)
        say(f"{checkpoint} -> {chosen.out}")
        if HUB and chosen.push_to_hub is not None:
            say(upload(chosen.out, chosen.push_to_hub, checkpoint, private=chosen.private))
    except Exception as error:
        return report_error(error)
    return 0


def find_checkpoint(path: Path, *, best: bool = False) -> Path:
    """Find a complete checkpoint whose files are as they were written.

    Args:
        path: the checkpoint, or the directory of a run, whose last one is meant.
        best: of a run, its best one is meant.

    Raises:
        ConfigError: there is none, or the one that is named is not complete.
    """
    path = path.parent if path.name == "actor" else path
    is_one = path.name.startswith("global_step_") or (path / MANIFEST).is_file()
    left = [path] if is_one else all_checkpoints(path)
    if best:
        chosen = best_of([one for one in left if not what_is_wrong(one)])
        left = [] if chosen is None else [chosen]
    wrong = f"{path} has no checkpoint" + (" with a validation score" if best else "")
    for checkpoint in left:
        problem = what_has_changed(checkpoint) if checkpoint.is_dir() else "no such directory"
        if problem is None:
            return checkpoint
        wrong = f"{checkpoint} is not a complete checkpoint: {problem}"
        if not is_one:
            print(f"warning: passing over {checkpoint}: {problem}", file=sys.stderr)
    hint = "name a global_step_N directory, or the directory of a run that has one that is whole"
    raise ConfigError(wrong, hint)


def export(checkpoint: Path, out: Path, *, dtype: str | None = None, base: Path | None = None) -> None:
    """Write a complete checkpoint's policy as a model with its tokenizer.

    Args:
        checkpoint: a global_step_N directory.
        out: must not exist. It appears whole or not at all.
        dtype: of the weights (float32, bfloat16, float16); None: as they are.
        base: the model that a LoRA adapter belongs to; None: where it was in training.

    Raises:
        ConfigError: `out` exists, or the model cannot be loaded.
    """
    if out.exists():
        raise ConfigError(f"{out} is there already", "name another directory, or remove this one")
    actor = checkpoint / "actor"
    if not (actor / "adapter_config.json").is_file():
        model = load_model(actor)
    elif LORA:
        model = merged_model(actor, base)
    else:
        raise ConfigError(f"{actor} holds a LoRA adapter", "vextract add lora")
    if dtype is not None:
        model = model.to(to_dtype(dtype))
    from transformers import AutoTokenizer

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        made = Path(scratch, "made")
        model.save_pretrained(made)
        tokenizer = AutoTokenizer.from_pretrained(actor)
        if MULTIMODAL:
            save_processor(tokenizer, made)
        tokenizer.save_pretrained(made)
        if HUB:
            card(checkpoint).save(made / "README.md")
        sync_tree(made)
        made.rename(out)


def load_model(path: Path) -> Any:
    """Load a model, in the dtype that it has."""
    from transformers import AutoModelForCausalLM

    from .workers.models import load_pretrained

    try:
        auto_class: Any = AutoModelForCausalLM
        if MULTIMODAL:
            auto_class = class_at(auto_class, path)
        return load_pretrained(auto_class, path, torch_dtype="auto")
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"cannot load the model at {path}: {error}", "check whether it was changed since") from error


if __name__ == "__main__":
    sys.exit(main())
