# vextract:template
"""A sequence-classification model as judge of responses. Upstream: verl/workers/fsdp_workers.py, RewardModelWorker."""

from collections.abc import Sequence
from typing import Any

import torch


class RewardModel:
    """Gives each response the one logit of an `AutoModelForSequenceClassification`.

    The whole model is on one device, that of the process which computes rewards (rank 0); it is not sharded. With
    `param_offload` its weights are in CPU memory while it is not scoring.

    Args:
        path: the model, a directory or a name on the hub. It must have one label.
        tokenizer: the policy's, which decodes the responses.
        device: "cpu", "cuda".
        dtype: of weights and passes.
        input_tokenizer: null: the judge reads the policy's own tokens, so that both must have the same vocabulary and
            chat template. Otherwise (verl: the path of the policy) responses are decoded, put into a conversation with
            the messages of the prompt, and encoded by the judge's own template and tokenizer.
        micro_batch_size: responses per pass.
        max_length: the judge reads at most so many tokens, the last ones; null: all.
        param_offload: see above.
        trust_remote_code: whether the model may bring code of its own.

    Raises:
        ValueError: the model has another number of labels than one, no padding token, or another vocabulary than the
            policy, whose tokens it is to read.
        OSError: there is no such model.
    """

    def __init__(
        self,
        path: str,
        tokenizer: Any,
        device: str,
        dtype: torch.dtype = torch.float32,
        *,
        input_tokenizer: str | None = None,
        micro_batch_size: int = 16,
        max_length: int | None = None,
        param_offload: bool = False,
        trust_remote_code: bool = False,
    ) -> None:
        from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

        config = AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code)
        if config.num_labels != 1:
            raise ValueError(f"{path} has {config.num_labels} labels; a reward model has one (num_labels: 1)")
        self.policy_tokenizer = tokenizer
        self.switches_template = input_tokenizer is not None
        self.tokenizer = tokenizer
        if self.switches_template:
            self.tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
        else:
            _check_vocabulary(path, config.vocab_size, tokenizer, trust_remote_code)
        if config.pad_token_id is None:
            config.pad_token_id = self.tokenizer.pad_token_id
        if config.pad_token_id is None:
            raise ValueError(f"{path} has no padding token: set pad_token_id in its config.json")
        self.pad_token_id = int(config.pad_token_id)
        self.device = device
        self.micro_batch_size = micro_batch_size
        self.max_length = max_length
        self.param_offload = param_offload and device != "cpu"
        # sdpa leaves out a cap on the logits of attention (Gemma 2).
        capped = getattr(config.get_text_config(), "attn_logit_softcapping", None)
        attention = {"attn_implementation": "eager"} if capped else {}
        model = AutoModelForSequenceClassification.from_pretrained(
            path, config=config, dtype=dtype, trust_remote_code=trust_remote_code, **attention
        )
        self.model = model.eval().requires_grad_(False).to("cpu" if self.param_offload else device)

    def score(self, data: Any) -> list[float]:
        """Return the logit of each response of a batch.

        Args:
            data: a DataProto: input_ids and attention_mask (bs, prompt_length + response_length), responses
                (bs, response_length); to switch templates also the column raw_prompt, the messages of the prompt
                (`data.return_raw_chat=true`), and of episodes the column conversation, those after it.

        Raises:
            KeyError: raw_prompt is needed and not there.
        """
        sequences = self._switched(data) if self.switches_template else self._own_tokens(data)
        if self.max_length is not None:
            sequences = [ids[-self.max_length :] for ids in sequences]
        scores = [0.0] * len(sequences)
        order = sorted(range(len(sequences)), key=lambda row: len(sequences[row]))  # little padding
        if self.param_offload:
            self.model.to(self.device)
        for start in range(0, len(order), self.micro_batch_size):
            rows = order[start : start + self.micro_batch_size]
            for row, value in zip(rows, self._pass([sequences[row] for row in rows]), strict=True):
                scores[row] = value
        if self.param_offload:
            self.model.to("cpu")
            torch.cuda.empty_cache()
        return scores

    def token_scores(self, data: Any) -> torch.Tensor:
        """Return `score` on the last token of each response: (bs, response_length) float32, as verl's `rm_scores`."""
        responses = data.batch["responses"]
        placed = torch.zeros(responses.shape, dtype=torch.float32, device=responses.device)
        last = (data.batch["attention_mask"][:, -responses.shape[-1] :].sum(dim=-1) - 1).clamp(min=0)
        placed[torch.arange(len(last), device=last.device), last] = torch.tensor(self.score(data), device=last.device)
        return placed

    def _own_tokens(self, data: Any) -> list[list[int]]:
        ids, mask = data.batch["input_ids"], data.batch["attention_mask"].bool()
        return [row[valid].tolist() for row, valid in zip(ids, mask, strict=True)]

    def _switched(self, data: Any) -> list[list[int]]:
        if "raw_prompt" not in data.non_tensor_batch:
            raise KeyError("raw_prompt: set data.return_raw_chat=true, the reward model has a chat template of its own")
        responses = data.batch["responses"]
        lengths = data.batch["attention_mask"][:, -responses.shape[-1] :].sum(dim=-1).tolist()
        texts = self.policy_tokenizer.batch_decode(
            [ids[:length] for ids, length in zip(responses.tolist(), lengths, strict=True)], skip_special_tokens=True
        )
        said = data.non_tensor_batch.get("conversation")
        if said is None:
            said = [[{"role": "assistant", "content": text}] for text in texts]
        chats = [
            self.tokenizer.apply_chat_template([*map(dict, messages), *following], tokenize=False)
            for messages, following in zip(data.non_tensor_batch["raw_prompt"], said, strict=True)
        ]
        encoded: list[list[int]] = self.tokenizer(chats, add_special_tokens=False)["input_ids"]
        return encoded

    @torch.no_grad()
    def _pass(self, sequences: Sequence[list[int]]) -> list[float]:
        """Compute the logits of sequences of about the same length, padded on the right."""
        width = max(1, *map(len, sequences))
        ids = torch.full((len(sequences), width), self.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = torch.tensor(sequence)
            mask[row, : len(sequence)] = 1
        logits = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device)).logits
        values: list[float] = logits[:, 0].float().cpu().tolist()
        return values


def _check_vocabulary(path: str, size: int, tokenizer: Any, trust_remote_code: bool) -> None:
    """Refuse a judge to which the policy's tokens mean something else."""
    from transformers import AutoTokenizer
    from transformers.utils import cached_file

    policy = tokenizer.get_vocab()
    try:
        cached_file(path, "tokenizer_config.json")
        own = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code).get_vocab()
    except OSError:  # weights alone: all that can be said is whether there are enough
        own = policy if max(policy.values()) < size else {}
    differing = sum(own.get(token) != number for token, number in policy.items())
    if differing:
        raise ValueError(
            f"{path} has another vocabulary than the policy ({differing} of {len(policy)} tokens differ), and with "
            "input_tokenizer=null it reads the policy's tokens: set input_tokenizer to the policy's path, and "
            "data.return_raw_chat=true"
        )
