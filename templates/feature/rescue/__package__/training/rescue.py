# vextract:template - edit freely
"""What a failure leaves is saved: the state from before a step that failed, or after one whose end failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DivergenceError, add_note
from ..run.checkpoint_files import CheckpointError
from ..run.distributed import is_connection_error, random_state, set_random_state
from ..run.process import StopRequested
from ..switches import EARLY_STOPPING, GIVEN_OBJECTS
from ..workers.rollout_interface import RolloutError


@contextmanager
def saving_if_unchanged(run: Any) -> Iterator[None]:
    """If a step fails within it before any process has changed a weight, save the state from before the step."""
    stepped: list[bool] = []
    optimizers = [model.optimizer for model in run.models.values()]
    hooks = [optimizer.register_step_post_hook(lambda *_: stepped.append(True)) for optimizer in optimizers]
    try:
        yield
    except Exception as error:
        if isinstance(error, DivergenceError) or is_connection_error(error):
            raise
        note = f"The state from before this step is saved: {run.checkpoints.directory}"
        if not run.ranks.all_arrive(f"failure in step {run.steps_done + 1}"):
            note = "The state was not saved: the error is one process's own, and the others cannot help to save it."
        elif run.ranks.any(bool(stepped)):
            note = "The state was not saved: part of this step's update had been made."
        else:
            try:
                run.save()
            except DivergenceError as reason:  # the step's own error would be less clear
                raise reason from error
            except CheckpointError as failure:
                note = f"The state from before this step was not saved: {failure}"
        add_note(error, note)
        raise
    finally:
        for hook in hooks:
            hook.remove()


def sync_weights(run: Any) -> None:
    """Have the engine take over the policy's weights; if it does not, the run ends when this step is saved."""
    try:
        run.rollouts.sync_weights()
    except (RolloutError, StopRequested) as error:  # on every process
        run.failure = error


def evaluated_or_failed(run: Any) -> dict[str, Any]:
    """Return the metrics of a validation; if it fails, none, and the run ends when the step before it is saved."""
    before = random_state()
    try:
        metrics: dict[str, Any] = run._evaluated() if GIVEN_OBJECTS or EARLY_STOPPING else run.validate()
        return metrics
    except Exception as error:
        if is_connection_error(error) or not run.ranks.all_arrive(f"failed validation {run.steps_done}"):
            raise
        run.failure = error
        set_random_state(before)
        return {}


def raise_kept(run: Any) -> None:
    """Raise what failed after a step's last update, now that the step is saved; a stop is no error."""
    if run.failure is not None and not isinstance(run.failure, StopRequested):
        add_note(run.failure, f"The state after step {run.steps_done} is saved: {run.checkpoints.directory}")
        raise run.failure
