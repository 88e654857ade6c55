# vextract:template - edit freely
"""vLLM in several processes that hold one model together: rollout.tensor_model_parallel_size of them.

Each holds a part of every matrix, so none can write a response without the others. Upstream's sharding managers, in the
releases that had them, did what `Team` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from ..run.distributed import random_state, set_random_state


@dataclass
class Request:
    """Holds what a process asks of its team.

    Attributes:
        prompts: as `LLM.generate` takes them; empty for a process that needs nothing more.
        sampling: how it wants them continued.
        settings: the further arguments of `LLM.generate`.
        state: its random numbers.
    """

    prompts: list[Any]
    sampling: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)


class Team:
    """An `LLM` that several processes make up, which write the responses to the prompts of all of them.

    Attributes other than those below are the `LLM`'s own.

    Args:
        engine: this process's part.
        size: how many processes make up one; those with neighbouring ranks.
    """

    def __init__(self, engine: Any, size: int) -> None:
        self.engine = engine
        self.place = dist.get_rank() % size
        self.group, _ = dist.new_subgroups(size, backend="gloo")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def generate(self, prompts: Sequence[Any], sampling_params: Any, **settings: Any) -> list[Any]:
        """Have `LLM.generate` answer this process's prompts. The others of the team must call this, or `finish`."""
        return self._write(self._requests(Request(list(prompts), sampling_params, settings, random_state())))

    def finish(self) -> None:
        """Help the other processes until none needs responses: this one needs no more."""
        requests = self._requests(Request([]))
        while any(request.prompts for request in requests):
            self._write(requests)
            requests = self._requests(Request([]))

    def _requests(self, own: Request) -> list[Request]:
        """Return what each process asks for, in the order of their ranks."""
        requests: list[Any] = [None] * self.group.size()
        dist.all_gather_object(requests, own, group=self.group)
        return requests

    def _write(self, requests: list[Request]) -> list[Any]:
        """Return the responses to this process's prompts, out of all that the team writes."""
        # All draw the same tokens: with the random numbers of the first that asks, whose alone go on.
        leader = next(place for place, request in enumerate(requests) if request.prompts)
        before = random_state()
        set_random_state(requests[leader].state)
        try:
            outputs = self.engine.generate(
                [prompt for request in requests for prompt in request.prompts],
                [request.sampling for request in requests for _ in request.prompts],
                **requests[leader].settings,
            )
        finally:
            if self.place != leader:
                set_random_state(before)
        first = sum(len(request.prompts) for request in requests[: self.place])
        return list(outputs[first : first + len(requests[self.place].prompts)])
