"""Upstream's losses of distillation: what a batch's passes and processes leave of them."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import log_softmax

from tests.fixes.support import Case, Part, Vendored
from tests.releases import NEWEST

PART = Part(roles=("actor", "algorithms", "distillation", "protocol"), features=("distillation",))
PROMPT, WIDTH, TOKENS, TOPK = 2, 4, 7, 3
LENGTHS = torch.tensor([4, 1, 3, 2])
MASK = (torch.arange(WIDTH) < LENGTHS.unsqueeze(1)).float()
WHOLE, PASSES, RANKS = [[[0, 1, 2, 3]]], [[[0], [1, 2, 3]]], [[[0, 1]], [[2], [3]]]


def test_the_likeliest_tokens_are_learned_under_fsdp2(case: Case, fixed: Vendored, broken: Vendored) -> None:
    assert torch.equal(_learned(fixed, "forward_kl_topk", WHOLE), _learned(fixed, "forward_kl_topk", WHOLE, "fsdp"))
    with pytest.raises(NotImplementedError, match="Unsupported strategy"):
        _learned(broken, "forward_kl_topk", WHOLE)


def test_the_mean_is_over_the_batch(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """The first batch of a run, in passes, as a whole."""
    whole = _learned(fixed, "k3", WHOLE)
    torch.testing.assert_close(_learned(fixed, "k3", PASSES), whole)
    assert not torch.allclose(_learned(broken, "k3", PASSES), whole, rtol=0.1)


@pytest.mark.usefixtures("_on_a_cpu")
@pytest.mark.parametrize("release", [pytest.param("0.8.0", marks=pytest.mark.thorough), NEWEST[-1]])
def test_no_loss_depends_on_the_passes(vendored: Callable[..., Vendored], release: str) -> None:
    package = vendored(release, PART)
    losses: tuple[tuple[str, Any], ...] = ("k1", {"use_policy_gradient": True}), ("k3", {}), ("forward_kl_topk", {})
    for (name, settings), mode in itertools.product(
        losses, ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean")
    ):
        whole = _learned(package, name, WHOLE, mode=mode, **settings)
        for division in (PASSES, RANKS):
            torch.testing.assert_close(_learned(package, name, division, mode=mode, **settings), whole, msg=name)


def _logits(seed: int) -> torch.Tensor:
    return torch.randn(len(MASK), PROMPT + WIDTH, TOKENS, generator=torch.Generator().manual_seed(seed))


def _tokens() -> torch.Tensor:
    return torch.randint(TOKENS, (len(MASK), PROMPT + WIDTH), generator=torch.Generator().manual_seed(3))


def _learned(
    package: Vendored,
    name: str,
    division: list[list[list[int]]],
    strategy: str = "fsdp2",
    mode: str = "token-mean",
    **settings: Any,
) -> torch.Tensor:
    """The gradient at the student's logits of a batch that is divided, as FSDP leaves it: the mean over processes.

    Args:
        division: of each process, of each pass, the rows.
        settings: of the loss.
    """
    losses = package.module("vendored.algorithms.distillation.losses")
    settings = {"use_policy_gradient": False, "use_task_rewards": False, "loss_max_clamp": None, **settings}
    loss = package.get("vendored.workers.config.distillation", "DistillationLossConfig")(
        loss_mode=name, topk=TOPK, log_prob_min_clamp=None, **settings
    )
    distillation = package.get("shims.stand_ins", "DistillationConfig")(loss)
    actor = package.get("vendored.workers.config.actor", "FSDPActorConfig")(
        strategy=strategy, rollout_n=1, ppo_micro_batch_size_per_gpu=1, loss_agg_mode=mode
    )
    logits = _logits(1).requires_grad_()
    for rows in (rows for passes in division for rows in passes):
        data = _pass(package, rows, by_topk=name == "forward_kl_topk")
        for key, value in {"dp_size": len(division), "global_batch_size": len(MASK)}.items():
            package.get("vendored.utils.tensordict_utils", "assign_non_tensor")(data, **{key: value})
        package.get("vendored.utils.tensordict_utils", "assign_non_tensor")(data, batch_num_tokens=int(MASK.sum()))
        kept = torch.cat([torch.ones(len(rows), PROMPT), MASK[rows]], 1).bool()
        of_pass = logits[rows][kept]
        offsets = data["input_ids"].offsets()

        def nested(values: torch.Tensor, offsets: torch.Tensor = offsets) -> torch.Tensor:
            return torch.nested.nested_tensor_from_jagged(values, offsets)

        following = data["input_ids"].values().roll(-1).unsqueeze(-1)
        output = {"log_probs": nested(log_softmax(of_pass, -1).gather(-1, following).squeeze(-1))}
        if name == "forward_kl_topk":
            found = losses.distillation_ppo_loss(actor, distillation, None, data, student_logits=of_pass.unsqueeze(0))
            output |= {key: nested(value.squeeze(0)) for key, value in found.items()}
        data["old_log_probs"] = package.get("vendored.workers.utils.padding", "no_padding_2_padding")(
            output["log_probs"].detach(), data
        )
        value, _ = losses.distillation_ppo_loss(actor, distillation, output, data)
        (value / len(division)).backward()
    assert logits.grad is not None
    return logits.grad


def _pass(package: Vendored, rows: list[int], *, by_topk: bool) -> Any:
    """Some rows of the batch, with what the teacher says of them, as the engine hands them to a loss."""
    teacher = log_softmax(_logits(2), -1)
    if by_topk:
        log_probs, tokens = teacher.topk(TOPK, -1)
    else:
        tokens = _tokens().roll(-1, 1).unsqueeze(-1)
        log_probs = teacher.gather(-1, tokens)
    mask = torch.cat([torch.ones(len(MASK), PROMPT), MASK], 1).long()
    columns = {
        "input_ids": _tokens(),
        "attention_mask": mask,
        "position_ids": mask.cumsum(-1) - 1,
        "prompts": _tokens()[:, :PROMPT],
        "responses": _tokens()[:, PROMPT:],
        "response_mask": MASK.long(),
        "advantages": torch.ones_like(MASK),
        "teacher_logprobs": log_probs,
        "teacher_ids": tokens,
    }
    whole = package.get("vendored.protocol", "DataProto").from_dict(columns)
    chosen = whole[torch.tensor(rows)].to_tensordict()
    return package.get("vendored.workers.utils.padding", "left_right_2_no_padding")(chosen)
