# vextract:template - edit freely
"""Turns of episodes by a server, each asked for by itself."""

import dataclasses
from collections.abc import Callable, Collection

from ...run.process import StopRequested
from .assembly import counted
from .http import Connection, stop_requested
from .interface import Request, Sampling, Server


class ServerWriter:
    """Writes the turns of episodes, each by a request to a server.

    Args:
        server: writes them.
        connection: to it.
        sampling: how tokens are drawn.
        room: from the lengths of a context and of what may follow to how much the server can write.
        eos: the tokens that end a turn.
    """

    def __init__(
        self,
        server: Server,
        connection: Connection,
        sampling: Sampling,
        room: Callable[[int, int], int],
        eos: Collection[int],
    ) -> None:
        self.server = server
        self.connection = connection
        self.sampling = sampling
        self.room = room
        self.eos = eos

    async def write(
        self, episode: int, context: list[int], max_tokens: int, seed: int
    ) -> tuple[list[int], list[float] | None]:
        """Return the tokens that the model writes next, and their log-probabilities if the server gives them."""
        most = self.room(len(context), max_tokens)
        request = Request(context, most, seed if self.sampling.temperature > 0 else None)
        response = await self.server.write(request, dataclasses.replace(self.sampling, max_tokens=most))
        length = counted(response.tokens, self.eos)
        return response.tokens[:length], response.log_probs and response.log_probs[:length]

    def leave(self) -> None:
        """Do nothing: no turn waits for another."""

    def check(self) -> None:
        """Raise if the server has ended, or the run is asked to stop."""
        self.connection.go_on()
        if stop_requested():
            raise StopRequested(f"stopped while {self.connection.url} was asked")
