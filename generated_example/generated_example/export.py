# vextract:template base/__package__/export.py - edit freely
"""Write a checkpoint as a plain model in Hugging Face format.

    python -m PACKAGE.export checkpoints/PROJECT/RUN/global_step_20 OUT     a checkpoint
    python -m PACKAGE.export checkpoints/PROJECT/RUN OUT                    the run's last one; --best: its best

`global_step_N/actor` is in this format already, unless the run trained a LoRA adapter: then it holds the adapter, in
peft's format. What this adds: it checks that the checkpoint is complete, merges an adapter into its model, changes the
dtype, leaves the optimizer behind, and OUT is there whole or not at all.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import ConfigError, report_error
from .output import say
from .run.checkpoint_files import MANIFEST, sync_tree, what_is_wrong
from .run.process import quiet
from .shims.device import to_dtype
from .tracking.run_tracker import CONFIG
from .training.checkpoint import all_checkpoints, best_of

DTYPES = ("float32", "bfloat16", "float16")
HINT = "name a global_step_N directory, or the directory of a run that has one that is whole"
RERUN = "the run saves after its last step (local.save_last), when it is interrupted, and every trainer.save_freq steps"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with these command-line arguments; returns the exit code: 0 done, 2 the arguments are at fault."""
    description = "Write a checkpoint as a plain model in Hugging Face format, with a LoRA adapter merged into it."
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.export", description=description)
    parser.add_argument("checkpoint", type=Path, help="a global_step_N directory, or a run's directory")
    parser.add_argument("out", type=Path, help="the directory to write, which must not be there yet")
    parser.add_argument("--best", action="store_true", help="of a run: its best checkpoint, by validation")
    parser.add_argument("--dtype", choices=DTYPES, help="of the weights; default: as they are")
    parser.add_argument("--shard-size", default="5GB", help="the most bytes of a file with weights (%(default)s)")
    parser.add_argument("--push-to-hub", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    quiet()
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        if chosen.push_to_hub is not None:
            raise ConfigError("this project was made without --push-to-hub", "vextract add hub")
        checkpoint = find_checkpoint(chosen.checkpoint, best=chosen.best)
        base = None
        export(checkpoint, chosen.out, dtype=chosen.dtype, shard_size=chosen.shard_size, base=base)
        say(f"{checkpoint} -> {chosen.out}")
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
    if path.name == "actor" and path.parent.name.startswith("global_step_"):
        path = path.parent
    is_one = path.name.startswith("global_step_") or (path / MANIFEST).is_file()
    left = [path] if is_one else all_checkpoints(path)
    hint = RERUN if (path / CONFIG).is_file() and not left else HINT
    if runs := sorted({str(file.parent) for file in path.glob("*/*_checkpointed_iteration.txt")}):
        hint = f"name a run: {', '.join(runs)}"
    while chosen := (best_of([one for one in left if not what_is_wrong(one)]) if best else next(iter(left), None)):
        problem = what_is_wrong(chosen, digests=True) if chosen.is_dir() else "there is no such directory"
        if problem is None:
            return chosen
        if is_one:
            raise ConfigError(f"{path} is not a complete checkpoint: {problem}", HINT)
        print(f"warning: passing over {chosen}: {problem}", file=sys.stderr)
        left.remove(chosen)
    raise ConfigError(f"{path} has no {'checkpoint with a validation score' if best else 'checkpoint'}", hint)


def export(
    checkpoint: Path, out: Path, *, dtype: str | None = None, shard_size: str = "5GB", base: Path | None = None
) -> None:
    """Write a complete checkpoint's policy as a model with its tokenizer.

    Args:
        checkpoint: a global_step_N directory.
        out: must not exist. It appears whole or not at all.
        dtype: of the weights (float32, bfloat16, float16); None: as they are.
        shard_size: the most bytes of a file with weights, as transformers takes them ("5GB").
        base: the model that a LoRA adapter belongs to; None: where it was in training.

    Raises:
        ConfigError: `out` exists, or the model cannot be loaded.
    """
    if out.exists():
        raise ConfigError(f"{out} is there already", "name another directory, or remove this one")
    actor = checkpoint / "actor"
    if not (actor / "adapter_config.json").is_file():
        model = load_model(actor)
    else:
        raise ConfigError(f"{actor} holds a LoRA adapter", "vextract add lora")
    if dtype is not None:
        model = model.to(to_dtype(dtype))
    from transformers import AutoTokenizer

    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        model.save_pretrained(scratch, max_shard_size=shard_size)
        AutoTokenizer.from_pretrained(actor).save_pretrained(scratch)
        scratch.chmod(0o755)
        sync_tree(scratch)
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def load_model(path: Path) -> Any:
    """Load a model, in the dtype that it has."""
    from transformers import AutoModelForCausalLM

    from .workers.models import load_pretrained

    try:
        return load_pretrained(AutoModelForCausalLM, path, torch_dtype="auto")
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"cannot load the model at {path}: {error}", "check whether it was changed since") from error


if __name__ == "__main__":
    sys.exit(main())
