# vextract:template base/__package__/export.py - edit freely
"""Write a checkpoint as a plain model in Hugging Face format.

    python -m PACKAGE.export checkpoints/PROJECT/RUN/global_step_20 OUT     a checkpoint
    python -m PACKAGE.export checkpoints/PROJECT/RUN OUT                    the run's last one; --best: its best

`global_step_N/actor` is in this format already, unless the run trained a LoRA adapter: then it holds the adapter, in
peft's format. What this adds: it checks that the checkpoint is complete, merges an adapter into its model, changes the
dtype, leaves the optimizer behind, and OUT is there whole or not at all.
"""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any

from .errors import ConfigError, report_error
from .output import install_command, say
from .run.base_models import POLICY, weights_digest
from .run.checkpoint import all_checkpoints, best_of
from .run.checkpoint_files import MANIFEST, OUTDATED, WRITING, read_state, sync_tree, what_is_wrong
from .shims.precision import to_dtype
from .tracking.run_tracker import CONFIG
from .workers.adapters import ADAPTER_CONFIG
from .workers.model_files import load_pretrained

DTYPES = ("float32", "bfloat16", "float16")
RERUN = "the run saves after its last step (local.save_last), when it is interrupted, and every trainer.save_freq steps"


def parser_of(program: str, description: str, out: str) -> argparse.ArgumentParser:
    """Return the parser of a program that makes something of a checkpoint; `out` says what its second argument is."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.{program}", description=description)
    parser.add_argument("checkpoint", type=Path, help="a global_step_N directory, or a run's directory")
    parser.add_argument("out", type=Path, help=out)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with these command-line arguments; returns the exit code: 0 done, 2 the arguments are at fault."""
    description = "Write a checkpoint as a plain model in Hugging Face format, with a LoRA adapter merged into it."
    parser = parser_of("export", description, "the directory to write, which must not be there yet")
    parser.add_argument("--best", action="store_true", help="of a run: its best checkpoint, by validation")
    parser.add_argument("--dtype", choices=DTYPES, help="of the weights; default: as they are")
    parser.add_argument("--shard-size", default="5GB", help="the most bytes of a file with weights (%(default)s)")
    parser.add_argument("--base", type=Path, help="where the model of a LoRA adapter is now, if it was moved")
    parser.add_argument("--push-to-hub", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    _be_quiet()
    try:
        if chosen.push_to_hub is not None:
            raise ConfigError("this project was made without --push-to-hub", "vextract add hub")
        checkpoint = find_checkpoint(chosen.checkpoint, best=chosen.best)
        export(checkpoint, chosen.out, dtype=chosen.dtype, shard_size=chosen.shard_size, base=chosen.base)
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
    if not path.is_dir():
        raise ConfigError(f"there is no {path}", "name a global_step_N directory, or the directory of a run")
    if not path.name.startswith("global_step_") and not (path / MANIFEST).is_file():
        return _of_run(path, best=best)
    problem = what_is_wrong(path, digests=True)
    if problem is not None:
        raise ConfigError(f"{path} is not a complete checkpoint: {problem}", "choose another global_step_N directory")
    return path


def _of_run(path: Path, *, best: bool) -> Path:
    """Find the last checkpoint of a run, or its best one; name those that are damaged, and pass over them."""
    found = all_checkpoints(path)
    if not found:
        raise _without_checkpoint(path)
    left = [checkpoint for checkpoint in found if _is_usable(checkpoint, digests=False)]
    while checkpoint := (best_of(left) if best else next(iter(left), None)):
        if _is_usable(checkpoint, digests=True):
            return checkpoint
        left.remove(checkpoint)
    if best and any(what_is_wrong(checkpoint) is None for checkpoint in found):
        raise ConfigError(f"{path} has no best checkpoint", "it needs validation; or name a global_step_N directory")
    raise ConfigError(f"every checkpoint in {path} is damaged", "restore the damaged files from a backup")


def _is_usable(checkpoint: Path, *, digests: bool) -> bool:
    problem = what_is_wrong(checkpoint, digests=digests)
    if problem is not None:
        print(f"warning: passing over {checkpoint}: {problem}", file=sys.stderr)
    return problem is None


def _without_checkpoint(path: Path) -> ConfigError:
    """Return what is said of a directory that no checkpoint is in: a run's, or any other."""
    begun = sorted(hidden for prefix in (WRITING, OUTDATED) for hidden in path.glob(f"{prefix}global_step_*"))
    if whole := [hidden for hidden in begun if what_is_wrong(hidden) is None]:
        step = "global_step_" + whole[-1].name.rpartition("_")[2]
        hint = f"mv {shlex.quote(str(whole[-1]))} {shlex.quote(str(path / step))}; the same run, started again, does so"
        return ConfigError(f"a run in {path} was killed before {step} had its name", hint)
    if begun:
        step = "global_step_" + begun[-1].name.rpartition("_")[2]
        return ConfigError(f"writing {step} in {path} was interrupted, and there is no other checkpoint", RERUN)
    inside = sorted(path.glob("*/*_checkpointed_iteration.txt"))
    if inside:
        runs = ", ".join(sorted({str(file.parent) for file in inside}))
        return ConfigError(f"{path} is not the directory of a run", f"name a run: {runs}")
    if (path / CONFIG).is_file():
        return ConfigError(f"{path} has no checkpoint: the run has saved none so far", RERUN)
    return ConfigError(f"{path} has no checkpoint", "name a global_step_N directory, or the directory of a run")


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
    model = _merged(actor, base) if (actor / ADAPTER_CONFIG).is_file() else _load(actor)
    if dtype is not None:
        model = model.to(to_dtype(dtype))
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        model.save_pretrained(scratch, max_shard_size=shard_size)
        _tokenizer(actor).save_pretrained(scratch)
        scratch.chmod(0o755)
        sync_tree(scratch)
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _be_quiet() -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    getLogger("bitsandbytes").setLevel(ERROR)  # which peft imports where it is installed


def _load(path: Path) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        return load_pretrained(AutoModelForCausalLM, path, torch_dtype="auto")
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"cannot load the model at {path}: {error}", "check whether it was changed since") from error


def _tokenizer(path: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path)


def _merged(adapter: Path, base: Path | None) -> Any:
    """Return the model of an adapter, with the adapter merged into it by peft."""
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
        return PeftModel.from_pretrained(_load(source), adapter).merge_and_unload(safe_merge=True)
    except (ValueError, RuntimeError) as error:
        raise ConfigError(f"{adapter} does not fit {source}: {error}", "--base names its own model") from error


if __name__ == "__main__":
    sys.exit(main())
