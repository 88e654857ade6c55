# vextract:template base/__package__/training/failures.py - edit freely
"""How a run ends: why it failed, or where its checkpoint is. An error is said once, in one message of all processes."""

import contextlib
import shlex
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import RESUMABLE, ConfigError, add_note, attached_notes, describe
from ..output import say
from ..rewards.scoring import own_line
from ..run.distributed import Ranks, is_connection_error
from .checkpoint import Checkpoints, step_of


def report(error: BaseException, ranks: Ranks) -> int:
    """Print what went wrong, on one process.

    Returns:
        The exit code: 1 failed, 2 config or data are at fault, 130 interrupted.

    Raises:
        BaseException: the error itself, if it is none of the known ones and there is only this process.
    """
    code, text = describe(error)
    text = text and f"error: {text}"
    if isinstance(error, KeyboardInterrupt):
        code, text = 130, "\n".join(["interrupted", *attached_notes(error)])
    elif isinstance(error, SystemExit):  # from code of the owner's, or a library's: not even 0 is success here
        ended = f"error: the run was ended by sys.exit({'' if error.code is None else repr(error.code)})"
        text = "\n".join([ended, f"  hook: {own_line(error) or 'no line of this project'}", *attached_notes(error)])
    if ranks.peers is None:
        if text is None:
            raise error
    else:
        text = text or "".join(traceback.format_exception(error)).rstrip()
        text = f"{text}\n(on rank {ranks.rank} of {ranks.world_size})" if code == 1 else text
        if is_connection_error(error):
            if (reason := ranks.peers.explain(error)) is None:
                return code
            code, text = 1, f"error: {reason}\n{RESUMABLE}"
        elif getattr(error, "raised_by", ranks.rank) != ranks.rank or not ranks.peers.is_first_to_fail():
            return code
    print(text, file=sys.stderr, flush=True)
    return code


@contextlib.contextmanager
def noting_checkpoint(checkpoints: Checkpoints, config: Any, total_steps: int) -> Iterator[None]:
    """Let an error (or Ctrl-C) that ends the run carry a note on the last checkpoint and how to resume."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        path, goes_on = checkpoints.last_complete(), not isinstance(error, ConfigError)  # by the same command
        # Other processes may have other disks: only rank 0 knows whether a checkpoint is missing.
        if goes_on and not config.trainer.val_only and (path is not None or checkpoints.ranks.rank == 0):
            add_note(error, interrupted_text(path, config, total_steps))
        raise


def print_last_checkpoint(checkpoints: Checkpoints, config: Any, total_steps: int, *, finished: bool) -> None:
    """Print, on rank 0, where the run's last checkpoint is, and what can be done with it."""
    if checkpoints.ranks.rank != 0 or config.trainer.val_only:
        return
    path = checkpoints.last_complete()
    if not finished:
        say(interrupted_text(path, config, total_steps))
    elif path is None or step_of(path) < total_steps:
        say("the trained model was not saved: local.save_last is false, and trainer.save_freq is not positive")
    else:
        quoted = shlex.quote(str(path))
        model = f"its model: {path / 'actor'}, in Hugging Face format"
        say(
            f"saved: {path}\n{model}\n"
            f"train further: the same command with trainer.resume_mode=resume_path trainer.resume_from_path={quoted} "
            f"trainer.total_training_steps=N, N being more than {step_of(path)}"
        )


def interrupted_text(path: Path | None, config: Any, total_steps: int) -> str:
    """Return the message of a run that ended before its last step, with its last checkpoint at `path`."""
    if path is None:
        return (
            "no checkpoint was saved: the same command starts from the first step (trainer.save_freq saves on the way)"
        )
    mode = "" if config.trainer.resume_mode == "auto" else " with trainer.resume_mode=auto"
    return f"saved at step {step_of(path)} of {total_steps}: {path}\nthe same command{mode} goes on from there"
