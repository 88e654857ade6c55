# vextract:template - edit freely
"""A teacher on servers, which are asked over HTTP how likely is what the policy writes."""

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import DataError
from ..run.distributed import Ranks
from ..settings.teacher_models import SECTION
from ..vendored.protocol import DataProto
from .rollout_interface import RolloutError
from .servers.http import Ask, Connection
from .servers.teacher_kinds import Likely, ServedModel


class ServedTeacher:
    """A model on servers that the policy learns from. It says what `Teacher` says, at temperature 1 as that does.

    Args:
        config: the whole config.
        models: what each of the servers has.
        ranks: this process among its peers; each asks about its own responses.
        topk: of how many tokens it says at each place how likely they are; None: of the one that follows.
        vocabulary: how many tokens the policy's model has.
    """

    def __init__(
        self, config: Any, models: Sequence[ServedModel], ranks: Ranks, topk: int | None, vocabulary: int
    ) -> None:
        self.topk, self.vocabulary = topk, vocabulary
        self._models, self._ranks = models, ranks
        self._connection = connect(config, models[0].url)

    def probabilities(self, batch: DataProto) -> DataProto:
        """Return what it says of each token of the responses. Every process must call this.

        Returns:
            `teacher_logprobs`, float32, and `teacher_ids`, int64, both (bs, response_length, k); 0 behind the end of a
            response.

        Raises:
            RolloutError: a server has refused, has not answered in time, or cannot be reached.
            DataError: there are images, which it is not sent.
        """
        return self._ranks.together(lambda: self._told_of(batch))

    def close(self) -> None:
        """Drop what is under way. May be called more than once."""
        self._connection.close()

    def _told_of(self, batch: DataProto) -> DataProto:
        if "multi_modal_inputs" in batch.non_tensor_batch:
            raise DataError("a teacher on a server is sent text only, and there are images", f"{SECTION}.url=null")
        responses, mask = batch.batch["responses"], batch.batch["attention_mask"].bool()
        said = mask[:, -responses.shape[1] :]
        log_probs = torch.zeros(*responses.shape, self.topk or 1)
        tokens = torch.zeros(*log_probs.shape, dtype=torch.int64)
        rows = [row for row, places in enumerate(said.sum(dim=1).tolist()) if places]
        sequences = {row: batch.batch["input_ids"][row][mask[row]].tolist() for row in rows}
        wanted = self.topk
        while rows:
            models = [self._models[(row + self._ranks.rank) % len(self._models)] for row in rows]
            asks = [
                model.ask(sequences[row], int(said[row].sum()), wanted) for row, model in zip(rows, models, strict=True)
            ]
            # What is missing where a teacher of more tokens than the policy has names some of those.
            missing = {}
            for row, likely in zip(rows, self._ask_all(asks, wanted), strict=True):
                found, lacking = self._of_policy(likely)
                log_probs[row][said[row]], tokens[row][said[row]] = found.log_probs, found.tokens
                if lacking:
                    missing[row] = lacking
            rows = list(missing)
            wanted = (wanted or 0) + max(missing.values(), default=0)
        return DataProto.from_dict({"teacher_logprobs": log_probs, "teacher_ids": tokens})

    def _ask_all(self, asks: Sequence[Ask[Likely]], wanted: int | None) -> list[Likely]:
        path = "/generate" if self._models[0].by == "sglang" else "/v1/completions"
        try:
            return self._connection.post_all(path, asks)
        except RolloutError as error:
            if wanted == self.topk:
                raise
            raise RolloutError(
                f"the teacher is likely to write tokens that the policy does not have, so that {wanted} are asked for "
                f"to have {self.topk} of the policy's: {error.parts[0]}",
                f"start vLLM with --max-logprobs {2 * (wanted or 1)}, or more, and the run again",
            ) from error

    def _of_policy(self, likely: Likely) -> tuple[Likely, int]:
        """Return the first `topk` tokens that the policy has at each place, and how many a place lacks at most."""
        own = likely.tokens < self.vocabulary
        if self.topk is None or own.all():
            return likely, 0
        first = (~own).int().argsort(dim=1, stable=True)[:, : self.topk]
        found = Likely(likely.log_probs.gather(1, first), likely.tokens.gather(1, first))
        return found, max(0, self.topk - int(own.sum(dim=1).min()))


def connect(config: Any, url: str) -> Connection:
    """Connect to a server of a teacher, or to several that are alike."""
    settings = config.local.teacher_server
    return Connection(
        url,
        concurrency=settings.concurrency,
        timeout=settings.request_timeout,
        check=lambda: None,
        section=SECTION,
    )
