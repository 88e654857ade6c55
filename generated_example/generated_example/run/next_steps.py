# vextract:template base/__package__/run/next_steps.py - edit freely
"""Say, at the end of a run, where its checkpoint is and how to go on from it."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..output import module_command, say
from .checkpoint import Checkpoints, step_of
from .failures import add_note


@contextlib.contextmanager
def noting_checkpoint(checkpoints: Checkpoints, config: Any, total_steps: int) -> Iterator[None]:
    """Let an error (or Ctrl-C) that ends the run carry a note on the last checkpoint and how to resume."""
    try:
        yield
    except ConfigError:  # the same command would not go on
        raise
    except (Exception, KeyboardInterrupt) as error:
        path = None
        with contextlib.suppress(ConfigError):  # an unreadable checkpoint must not hide the run's own error
            path = checkpoints.last_complete()
        # Other processes may have other disks: only rank 0 knows whether a checkpoint is missing.
        if not config.trainer.val_only and (path is not None or checkpoints.ranks.rank == 0):
            add_note(error, interrupted_text(path, config, total_steps))
        raise


def say_where(checkpoints: Checkpoints, config: Any, total_steps: int, *, finished: bool) -> None:
    """Print, on rank 0, where the run's last checkpoint is, and what can be done with it."""
    if checkpoints.ranks.rank != 0 or config.trainer.val_only:
        return
    path = checkpoints.last_complete()
    if finished:
        path = path if path and step_of(path) >= total_steps else None
        say(finished_text(path))
        if config.local.get("supervised") and path is not None:
            say(by_rewards_text(path))
    else:
        say(interrupted_text(path, config, total_steps))


def finished_text(path: Path | None) -> str:
    """Word the end of a run that has reached its last step, whose checkpoint is at `path`; None: it was not saved."""
    if path is None:
        return "the trained model was not saved: local.save_last is false, and trainer.save_freq is not positive"
    quoted = shlex.quote(str(path))
    return (
        f"saved: {path}\n"
        f"export: {module_command('export')} {quoted} OUT\n"
        f"train further: the same command with trainer.resume_mode=resume_path trainer.resume_from_path={quoted} "
        f"trainer.total_training_steps=N, N being more than {step_of(path)}"
    )


def by_rewards_text(path: Path) -> str:
    """Word how a model that has learned demonstrations is trained by rewards; `path` is its checkpoint."""
    actor = path / "actor"
    if (actor / "config.json").is_file():
        return f"by rewards: python main.py actor_rollout_ref.model.path={shlex.quote(str(actor))}"
    return "by rewards: export it, then python main.py actor_rollout_ref.model.path=OUT"


def interrupted_text(path: Path | None, config: Any, total_steps: int) -> str:
    """Word the end of a run that has ended before its last step, and whose last checkpoint is at `path`."""
    if path is None:
        return (
            "no checkpoint was saved: the same command starts from the first step (trainer.save_freq saves on the way)"
        )
    mode = "" if config.trainer.resume_mode == "auto" else " with trainer.resume_mode=auto"
    return f"saved at step {step_of(path)} of {total_steps}: {path}\nthe same command{mode} goes on from there"
