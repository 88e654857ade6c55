# vextract:template base/__package__/training/failures.py - edit freely
"""How a run ends: why it failed, whether it has diverged, or where its checkpoint is.

An error is said once, in one message of all processes. What a model computes that has diverged is of no use, and
neither is a checkpoint of it: the last good one stays the last one.
"""

import contextlib
import math
import shlex
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import RESUMABLE, ConfigError, ProjectError, add_note, describe, notes_on
from ..output import say
from ..rewards.scoring import own_line
from ..run.distributed import Ranks, is_connection_error
from ..vendored.protocol import DataProto
from .checkpoint import Checkpoints, step_of

STEPS_SHOWN = 4
# A single batch may give a loss or gradient that is not finite: upstream skips its update and goes on. So many in a row
# end the run.
PATIENCE = 3


def report(error: BaseException, ranks: Ranks) -> int:
    """Say what went wrong, unless another process does.

    Returns:
        The exit code: 1 failed, 2 config or data are at fault, 130 interrupted.

    Raises:
        BaseException: the error itself, if it is none of the known ones and there is only this process.
    """
    code, text = describe(error)
    text = text and f"error: {text}"
    if isinstance(error, KeyboardInterrupt):
        code, text = 130, "\n".join(["interrupted", *notes_on(error)])
    elif isinstance(error, SystemExit):  # from code of the owner's, or a library's: not even 0 is success here
        ended = f"error: the run was ended by sys.exit({'' if error.code is None else repr(error.code)})"
        text = "\n".join([ended, f"  hook: {own_line(error) or 'no line of this project'}", *notes_on(error)])
    if ranks.peers is None:
        if text is None:
            raise error
    else:
        text = text or "".join(traceback.format_exception(error)).rstrip()
        text = f"{text}\n(on rank {ranks.rank} of {ranks.world_size})" if code == 1 else text
        if is_connection_error(error):
            reason = ranks.peers.explain(error)
            if reason is None:
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
    """Word the end of a run that has ended before its last step, and whose last checkpoint is at `path`."""
    if path is None:
        return (
            "no checkpoint was saved: the same command starts from the first step (trainer.save_freq saves on the way)"
        )
    mode = "" if config.trainer.resume_mode == "auto" else " with trainer.resume_mode=auto"
    return f"saved at step {step_of(path)} of {total_steps}: {path}\nthe same command{mode} goes on from there"


class DivergenceError(ProjectError, RuntimeError):
    """A model no longer computes finite numbers. The text ends with a hint that says what to do."""


class DivergenceCheck:
    """Checks the models of a run after each update and before each checkpoint.

    Args:
        ranks: this process among its peers; every one must make the same calls.
        models: those that are trained, by name. The policy (actor) is tried on a response for each process before it is
            saved.
    """

    def __init__(self, ranks: Ranks, models: Mapping[str, Any]) -> None:
        self.ranks = ranks
        self.models = models
        self._steps: dict[int, dict[str, float]] = {}
        self._in_a_row: Counter[str] = Counter()
        self._responses: DataProto | None = None

    def after_update(self, name: str, metrics: dict[str, Any], step: int) -> None:
        """Check a model that has just been updated.

        Args:
            name: the model's.
            metrics: of the step so far, as numbers, the same on every process.
            step: which one it is.

        Raises:
            DivergenceError: its weights are NaN, infinite or too large, or its loss or its gradient has been so several
                times.
        """
        model = self.models[name]
        loss, gradient = f"{name}/{model.loss_name}", f"{name}/grad_norm"
        shown = (f"{name}/lr", gradient, loss, f"{name}/ppo_kl")
        self._steps.setdefault(step, {}).update({key: float(metrics[key]) for key in shown if key in metrics})
        self._steps.pop(step - STEPS_SHOWN, None)
        if self.ranks.any(not model.is_usable):
            raise self.error(name, f"the {name}'s weights are NaN, infinite or too large to compute with")
        found = {"loss": metrics.get(loss, 0.0), "gradient": metrics.get(gradient, 0.0)}
        bad = [f"{what} is {value}" for what, value in found.items() if not math.isfinite(value)]
        self._in_a_row[name] = self._in_a_row[name] + 1 if bad else 0
        if self._in_a_row[name] >= PATIENCE:
            what = f"the {name}'s {' and its '.join(bad)}, for {PATIENCE} steps in a row, which changed no weight"
            raise self.error(name, what)

    def remember(self, batch: DataProto) -> None:
        """Keep a response for each process, to try the models on."""
        some = batch[: self.ranks.world_size]
        self._responses = DataProto(some.batch.clone(), some.non_tensor_batch, some.meta_info)

    def before_saving(self) -> None:
        """Check that the policy still gives probabilities.

        Raises:
            DivergenceError: they are NaN or infinite.
        """
        if self._responses is None:
            return
        mask = self._responses.batch["response_mask"].bool()
        if not torch.isfinite(self.log_probs(self._responses)[mask]).all():
            raise self.error("actor", "the policy's log-probabilities are NaN or infinite")

    def log_probs(self, batch: DataProto) -> torch.Tensor:
        """Return the policy's log-probabilities of a global batch now, (bs, response_length)."""
        found: torch.Tensor = self.ranks.spread(self.models["actor"].compute_log_prob, batch).batch["old_log_probs"]
        return found

    def error(self, name: str, what: str, *more: str, hint: str = "") -> DivergenceError:
        """Return an error that says what the last steps gave, and what to do.

        Args:
            name: the model's.
            what: what is wrong with it.
            more: further lines.
            hint: another one than the usual one.
        """
        lines = [f"the run has diverged: {what}", *more]
        for step, values in self._steps.items():
            lines.append(f"  step {step}: " + ", ".join(f"{key} {value:.3g}" for key, value in values.items()))
        optim = self.models[name].optim_name
        usual = f"lower {optim}.lr, or raise {optim}.lr_warmup_steps; these weights were not saved"
        return DivergenceError("\n".join([*lines, f"hint: {hint or usual}"]))
