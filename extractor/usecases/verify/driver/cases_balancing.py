# mypy: disable-error-code="misc"
"""Cases of partitions of sequences by length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from . import inputs
from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.utils.seqlen_balancing"


@family("seqlen_balancing", MODULE)
def balancing(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Make partitions, micro-batches by token budget, and their way back."""
    generator = torch.Generator().manual_seed(501)
    lengths = torch.randint(1, 200, (24,), generator=generator).tolist()
    for parts in (1, 3, 8):
        for equal in (True, False):
            for name in ("get_seqlen_balanced_partitions", "karmarkar_karp"):
                yield (
                    f"{name}/{parts}/{equal}",
                    lambda name=name, parts=parts, equal=equal: outcome(
                        side.get(f"{MODULE}:{name}"), lengths, k_partitions=parts, equal_size=equal
                    ),
                )
    yield "ceildiv", lambda: [side.get(f"{MODULE}:ceildiv")(value, 4) for value in range(1, 12)]
    yield "roundup_divisible", lambda: [side.get(f"{MODULE}:roundup_divisible")(value, 4) for value in range(12)]
    yield "get_reverse_idx", lambda: side.get(f"{MODULE}:get_reverse_idx")([3, 0, 2, 1])
    yield "calculate_workload", lambda: side.get(f"{MODULE}:calculate_workload")(torch.tensor(lengths))
    for budget in (20, 45, 200):
        for least in (None, 5):
            yield (
                f"rearrange_micro_batches/{budget}/{least}",
                lambda budget=budget, least=least: outcome(
                    side.get(f"{MODULE}:rearrange_micro_batches"), _batch(side).batch, budget, min_num_micro_batch=least
                ),
            )
    yield (
        "rearrange_micro_batches/divided",
        lambda: outcome(
            side.get(f"{MODULE}:rearrange_micro_batches"), _batch(side).batch, 45, num_batches_divided_by=4
        ),
    )

    def there_and_back() -> Any:
        data = _batch(side)
        parts, order = side.get(f"{MODULE}:prepare_dynamic_batch")(data, max_token_len=45)
        scores = torch.cat([part.batch["scores"] for part in parts])
        return parts, order, side.get(f"{MODULE}:restore_dynamic_batch")(scores, order)

    yield "there and back", there_and_back
    yield (
        "log_seqlen_unbalance",
        lambda: side.get(f"{MODULE}:log_seqlen_unbalance")(lengths, [[0, 1, 2], [3, 4, 5]], "p"),
    )


def _batch(side: Side) -> Any:
    mask = torch.cat([torch.ones(inputs.BATCH, 3, dtype=torch.long), inputs.response_mask()], dim=1)
    tensors = {"attention_mask": mask, "input_ids": mask * 5, "scores": inputs.normal(inputs.BATCH, 2, seed=502)}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors)
