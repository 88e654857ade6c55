# vextract:template - edit freely
"""On-policy distillation: the policy learns from a teacher how likely is what it writes itself.

(Agarwal et al., https://arxiv.org/abs/2306.13649; https://thinkingmachines.ai/blog/on-policy-distillation/.) The losses
are upstream's, verl/trainer/distillation/losses.py.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from ..errors import DataError
from ..run.distributed import Ranks
from ..settings.teacher_models import named_teachers
from ..shims.stand_ins import DistillationConfig
from ..vendored.algorithms.distillation.losses import distillation_ppo_loss
from ..vendored.protocol import DataProto
from ..workers.policy import Policy
from ..workers.teacher import Teacher
from .distillation_checks import loss_config, names_by_key, teacher_section


class Distillation:
    """Has a policy learn from teachers: its updates minimise upstream's loss of distillation from now on.

    Attributes:
        teachers: by the value of the column `teacher_key` of the rows that each is for; a single one is for all rows.

    Args:
        config: the whole config.
        tokenizer: of the policy, and so of its teachers.
        ranks: this process among its peers; every one must make the same calls.
        policy: the model that is trained.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, policy: Policy) -> None:
        self._ranks = ranks
        self._key: str = config.distillation.teacher_key
        settings = loss_config(config)
        by_topk = settings.loss_settings.use_topk
        self._topk: int | None = settings.topk if by_topk else None
        policy.actor.loss = partial(_loss, DistillationConfig(settings))
        nothing_else = by_topk and not settings.use_task_rewards and not settings.use_policy_gradient
        policy.actor.loss_settings = {"distillation_use_topk": by_topk, "distillation_only": nothing_else}
        vocabulary = policy.module.config.get_text_config().vocab_size
        models, loaded = named_teachers(config), {}
        self.teachers: dict[str | None, Teacher] = {}
        for key, name in names_by_key(config).items():
            path = models[name].model_path
            if path not in loaded:
                section = teacher_section(config, path)
                loaded[path] = Teacher(config, section, tokenizer, ranks, self._topk, vocabulary)
            self.teachers[key] = loaded[path]

    def add(self, batch: DataProto) -> None:
        """Add what the teachers say of each token that the policy wrote.

        Args:
            batch: the global batch, the same on every process; gets `teacher_logprobs` (float32) and `teacher_ids`
                (int64), (bs, prompt_length + response_length, k), of the tokens that may follow the one at each place:
                the k likeliest to the teacher, or, for losses by estimators, the one that follows (k is 1).

        Raises:
            DataError: there is no teacher for a row.
        """
        found: DataProto | None = None
        for key, teacher in self.teachers.items():
            rows = np.arange(len(batch)) if key is None else self._rows_of(batch, key)
            if len(rows) == 0:
                continue
            part = self._ranks.spread(teacher.probabilities, batch[rows])
            if found is None:
                found = DataProto.from_dict(
                    {name: value.new_zeros(len(batch), *value.shape[1:]) for name, value in part.batch.items()}
                )
            for name, value in part.batch.items():
                found.batch[name][rows] = value
        assert found is not None
        # A response's first token is said by the last place of its prompt.
        places, width = batch.batch["prompts"].shape[1] - 1, batch.batch["input_ids"].shape[1]
        for name, value in found.batch.items():
            whole = value.new_zeros(len(batch), width, value.shape[2])
            whole[:, places : places + value.shape[1]] = value
            batch.batch[name] = whole

    def _rows_of(self, batch: DataProto, key: str) -> np.ndarray:
        """Return the rows that a teacher is for."""
        keys = batch.non_tensor_batch.get(self._key)
        unknown = [value for value in ([None] if keys is None else keys) if value not in self.teachers]
        if unknown or keys is None:
            raise DataError(
                f"distillation.teacher_key={self._key}: there is no teacher for a row where that is {unknown[0]!r}",
                f"the teachers are for {', '.join(map(repr, self.teachers))}: add one, or leave such rows out",
            )
        return np.flatnonzero([value == key for value in keys])


def _loss(
    distillation: DistillationConfig,
    config: Any,
    model_output: dict[str, Any] | None = None,
    data: Any = None,
    dp_group: Any = None,
    student_logits: torch.Tensor | None = None,
) -> Any:
    """Call upstream's loss, which is called twice: for a number per token from logits, and for the loss of a pass."""
    return distillation_ppo_loss(config, distillation, model_output, data, dp_group, student_logits)
