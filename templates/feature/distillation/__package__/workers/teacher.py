# vextract:template - edit freely
"""A teacher: a model that is not trained, and says how likely is what the policy writes."""

import copy
from typing import Any

import torch
from omegaconf import open_dict

from ..run.distributed import Ranks
from ..vendored.protocol import DataProto
from .actor import Actor, used_tokens
from .logits import LogitsInPieces
from .policy import Reference, for_log_probs

AT_ONCE = 1024  # tokens of whose logits, where a pass has them all, the likeliest are looked for


class TeacherActor(Actor):
    """A vendored actor that names the likeliest tokens, where it is asked to.

    Attributes:
        topk: how many; 0: it does not.
        vocabulary: tokens from this number on are not named: the policy has none.
    """

    pieces: LogitsInPieces

    def __init__(self, config: Any, module: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
        super().__init__(config, module, optimizer)
        self.topk, self.vocabulary = 0, 0
        self._named = False  # whether what the model gave are names already, and no logits
        head = module.get_output_embeddings()
        if head is not None:
            self._whole, head.forward = head.forward, self._head

    def likeliest(self, data: DataProto) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which tokens are likeliest at the place of each token of the responses, and how likely.

        Returns:
            Log-probabilities, float32, and the tokens, int64: both (bs, response_length, topk), the likeliest first.
        """
        found = self.infer(data, calculate_entropy=False, distillation_use_topk=True)["likeliest"]
        log_probs, tokens = found.chunk(2, dim=-1)
        return log_probs, tokens.long()

    def _head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Compute the last layer; or, in pieces, what is asked for of its logits."""
        self._named = bool(self.topk) and self.pieces.wanted(hidden.shape[:-1].numel())
        if not self._named:
            return self._whole(hidden)
        pieces = hidden.flatten(0, -2).split(self.pieces.tokens_at_once)
        return torch.cat([self._names(self._whole(piece)) for piece in pieces]).unflatten(0, hidden.shape[:-1])

    def _names(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of the likeliest tokens, and these, (tokens, 2 * topk) float32.

        A float32 is exact up to 2^24, far more than there are tokens.
        """
        logits = logits.float()
        found = logits[:, : self.vocabulary].topk(self.topk, dim=-1)
        return torch.cat([found.values - logits.logsumexp(dim=-1, keepdim=True), found.indices.float()], dim=-1)

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token: the likeliest tokens, where it is asked to name them."""
        if not self.topk:
            return super().prepare_model_outputs(output, output_args, micro_batch, **settings)
        offsets = micro_batch["input_ids"].offsets()
        found = used_tokens(output.logits, offsets)
        if not self._named:
            found = torch.cat([self._names(piece) for piece in found.split(AT_ONCE)])
        return {"likeliest": torch.nested.nested_tensor_from_jagged(found, offsets)}


class Teacher(Reference):
    """A model that the policy learns from. It is placed, shared out and computed with as the reference is.

    Args:
        config: the whole config; `actor_rollout_ref.ref` says where the teacher rests and how large its passes are.
        model: the `model` section of the teacher.
        tokenizer: of the policy.
        ranks: this process among its peers.
        topk: of how many tokens it says at each place how likely they are; None: of the one that follows.
        vocabulary: how many tokens the policy's model has.
    """

    actor_class = TeacherActor
    actor: TeacherActor

    def __init__(
        self, config: Any, model: Any, tokenizer: Any, ranks: Ranks, topk: int | None, vocabulary: int
    ) -> None:
        own = copy.deepcopy(config)
        with open_dict(own):
            own.actor_rollout_ref.model = model
            own.actor_rollout_ref.ref.model = {"path": model.path}
            own.actor_rollout_ref.rollout.temperature = 1.0  # as upstream: the policy's is not the teacher's
        super().__init__(own, tokenizer, ranks)
        self.topk = topk
        self.actor.topk, self.actor.vocabulary = topk or 0, vocabulary

    def probabilities(self, batch: DataProto) -> DataProto:
        """Return what it says of each token of the responses.

        Returns:
            `teacher_logprobs`, float32, and `teacher_ids`, int64, both (bs, response_length, k).
        """
        if self.topk is None:
            log_probs = self.compute_log_prob(batch).batch["ref_log_prob"].unsqueeze(-1)
            tokens = batch.batch["responses"].unsqueeze(-1)
            return DataProto.from_dict({"teacher_logprobs": log_probs, "teacher_ids": tokens})
        section = self.config.actor_rollout_ref
        with self.at_work():
            prepared = for_log_probs(batch, section.ref, section.rollout.temperature)
            log_probs, tokens = self.actor.likeliest(prepared)
        return DataProto.from_dict({"teacher_logprobs": log_probs.cpu(), "teacher_ids": tokens.cpu()})
