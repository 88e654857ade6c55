# vextract:template - edit freely
"""Hand the words of the model to a reward manager: `ModelWords` says what they are."""

from collections.abc import Callable
from typing import Any

from ..episodes.words import note_turns, without_answers
from ..hooks import call_manager
from ..switches import EPISODES, OVERLAP
from ..vendored.protocol import DataProto
from .model_words import ModelWords


class RewardOfWords:
    """A reward manager that reads the words of the model.

    Args:
        manager: called with what it is to read of a batch.
        words: say what that is.
    """

    def __init__(self, manager: Any, words: ModelWords) -> None:
        self.manager = manager
        self.words = words

    def __call__(self, data: DataProto, return_dict: bool = False) -> Any:
        """Score a batch, as the manager does; what it does not get of it is said once."""
        seen, back = self.seen(data)
        result = call_manager(self.manager, seen)
        self.words.note(data)
        if EPISODES:
            note_turns(data, self.manager, self.words)
        if "reward_tensor" in result:
            result = {**result, "reward_tensor": back(result["reward_tensor"])}
        return result if return_dict else result["reward_tensor"]

    def seen(self, data: DataProto) -> tuple[DataProto, Callable[[Any], Any]]:
        """Return a batch as the manager gets it, and a function from its scores to those of the batch."""
        return self.words.seen(without_answers(data, self.manager, self.words) if EPISODES else data)

    if OVERLAP:

        def begin(self, sample: DataProto) -> Any:
            """Have the manager begin to score one response."""
            return self.manager.begin(self.seen(sample)[0])

        def give_up(self, begun: Any) -> None:
            """Drop what was begun."""
            self.manager.give_up(begun)
