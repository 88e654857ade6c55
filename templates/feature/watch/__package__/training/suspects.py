# vextract:template - edit freely
"""The samples of a batch whose loss or gradient is no number: found, and written down for whoever looks into it."""

import json
from pathlib import Path
from typing import Any

import torch

from ..errors import full_disk
from ..run.distributed import Ranks
from ..vendored.protocol import DataProto
from .batches import sample_rows

# What is computed for each token of a response, in the order in which it is computed.
COLUMNS = (
    "rollout_log_probs",
    "old_log_probs",
    "ref_log_prob",
    "values",
    "token_level_scores",
    "token_level_rewards",
    "rollout_is_weights",
    "advantages",
    "returns",
)
SHOWN_CHARACTERS = 80
LEAST_LIKELY = "least likely token is the least likely of all"


class Suspects:
    """Finds the samples of a batch that led to no number, and writes the batch down.

    Args:
        ranks: this process among its peers; rank 0 writes.
        tokenizer: shows the samples as text.
        directory: where files go.

    Attributes:
        batch: the global batch of the step, the same on every process.
    """

    def __init__(self, ranks: Ranks, tokenizer: Any, directory: Path) -> None:
        self.ranks = ranks
        self.tokenizer = tokenizer
        self.directory = directory
        self.batch: Any = None

    def write(self, batch: DataProto, log_probs: torch.Tensor, step: int) -> list[str]:
        """Write what led to a step without numbers: each sample in step_N.jsonl, and all tensors in step_N.pt.

        Args:
            batch: the global batch, the same on every process.
            log_probs: the policy's, of its responses, now: (bs, response_length).
            step: which one it is.

        Returns:
            Lines for a message: the sample, and where the files are; on every process.
        """
        return self.ranks.on_driver(lambda: self._write(batch, log_probs, step))

    def _write(self, batch: DataProto, log_probs: torch.Tensor, step: int) -> list[str]:
        reasons = found_in(batch, log_probs)
        columns = batch.batch
        mask = columns["response_mask"].bool()
        scored = "token_level_scores" in columns.keys()  # demonstrations are not
        scores = columns["token_level_scores"].sum(dim=-1).tolist() if scored else [None] * len(batch)
        rows = sample_rows(batch, scores, self.tokenizer)
        path = self.directory / f"step_{step}.jsonl"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            tensors = {name: columns[name] for name in columns.keys()}
            with path.with_suffix(".pt").open("wb") as opened:  # or torch would not say what the disk has refused
                torch.save({**tensors, "log_probs": log_probs}, opened)
            with path.open("w", encoding="utf-8") as file:
                for index, row in enumerate(rows):
                    tokens = columns["responses"][index][mask[index]].tolist()
                    entry = {**row, "sample": index, "tokens": tokens, "not_finite": reasons.get(index)}
                    file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")
            written = f"  batch, tokens and rewards: {path} and {path.with_suffix('.pt').name}"
        except (OSError, RuntimeError) as error:
            written = f"  the batch could not be written to {self.directory}: {full_disk(error) or error}"
        weights, most = (columns["advantages"], "advantage is the largest") if scored else (-log_probs, LEAST_LIKELY)
        index = min(reasons, default=int((weights * mask).nan_to_num().abs().amax(dim=-1).argmax()))
        reason = reasons.get(index, f"all numbers of the batch are finite; its {most}")
        texts = ", ".join(f"{name} {str(rows[index][name])[:SHOWN_CHARACTERS]!r}" for name in ("prompt", "response"))
        others = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        reward = f", reward {scores[index]:.3g}" if scored else ""
        return [f"  sample {index} of step {step}{others}: {reason}: {texts}{reward}", written]


def found_in(batch: DataProto, log_probs: torch.Tensor) -> dict[int, str]:
    """Return, for each row in which a number is not finite, where: the first column that has one.

    Args:
        batch: with some of COLUMNS, and response_mask, (bs, response_length).
        log_probs: the policy's, of the responses, now.
    """
    mask = batch.batch["response_mask"].bool()
    columns = {name: batch.batch[name] for name in COLUMNS if name in batch.batch.keys()}
    reasons: dict[int, str] = {}
    for name, values in {**columns, "the policy's log-probabilities": log_probs}.items():
        for row in (~torch.isfinite(values) & mask).any(dim=-1).nonzero().flatten().tolist():
            reasons.setdefault(row, f"{name} of it are not finite")
    return reasons
