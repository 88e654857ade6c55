# vextract:template - edit freely
"""Callbacks of a run, called as transformers calls its `TrainerCallback`."""

from collections.abc import Iterable
from typing import Any

from ..errors import ConfigError

# What callbacks are told of.
EVENTS = ("on_train_begin", "on_step_begin", "on_step_end", "on_evaluate", "on_save", "on_log", "on_train_end")


class Callbacks:
    """Tells callbacks what happens in a run.

    Each is called as transformers calls it, `callback.on_step_end(args, state, control, ...)`, where args is the config
    and the further arguments are the model, the tokenizer (processing_class), the trainer, and `metrics` (on_evaluate)
    or `logs` (on_log). `control` is how it asks for something: should_training_stop, should_save, should_evaluate.

    Args:
        callbacks: objects with some of these methods.
        trainer: whose run it is.
    """

    def __init__(self, callbacks: Iterable[Any], trainer: Any) -> None:
        self.callbacks = list(callbacks)
        self.trainer = trainer
        if not self.callbacks:
            return
        from transformers import TrainerControl, TrainerState

        self.control: Any = TrainerControl()
        self.state: Any = TrainerState(max_steps=trainer.total_steps, is_world_process_zero=trainer.ranks.rank == 0)

    def __call__(self, event: str, **details: Any) -> None:
        """Tell all callbacks that have this method."""
        if not self.callbacks:
            return
        trainer = self.trainer
        self.state.global_step = trainer.steps_done
        self.state.epoch = trainer.steps_done / max(1, len(trainer.train_loader))
        if event == "on_train_begin":
            self.control._new_training()
        elif event == "on_step_begin":
            self.control._new_step()
        if event == "on_log":
            self.state.log_history.append({**details["logs"], "step": trainer.steps_done})
        given = {"model": trainer.policy.module, "processing_class": trainer.tokenizer, "trainer": trainer, **details}
        for callback in self.callbacks:
            function = getattr(callback, event, None)
            if function is not None:
                self.control = function(trainer.config, self.state, self.control, **given) or self.control

    def asked(self, what: str) -> bool:
        """Tell whether a callback, on any process, has asked for it: training_stop, save or evaluate."""
        return bool(self.callbacks) and self.trainer.ranks.any(bool(getattr(self.control, f"should_{what}")))


def listed(callbacks: Any) -> list[Any]:
    """Return callbacks as a list.

    Raises:
        ConfigError: they are no list of callbacks, or one of them has no method that is ever called.
    """
    if not isinstance(callbacks, Iterable):
        raise ConfigError(f"callbacks is of type {type(callbacks).__name__}", "give a list of callbacks")
    found = list(callbacks)
    for callback in found:
        if isinstance(callback, type) or not any(callable(getattr(callback, event, None)) for event in EVENTS):
            what = f"the class {callback.__name__}" if isinstance(callback, type) else f"{callback!r:.80}"
            raise ConfigError(
                f"a callback is {what}, which has no method that would be called",
                f"give objects with some of {', '.join(EVENTS)}",
            )
    return found
