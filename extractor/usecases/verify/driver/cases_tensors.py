# mypy: disable-error-code="misc"
"""Masked operations, log-probabilities, padding and learning-rate schedules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from . import inputs
from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.utils.torch_functional"


@family("torch_functional.masked", MODULE)
def masked(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of sums, means, variances and whitening under a mask."""
    mask = inputs.response_mask()
    for kind, dtype in (("f32", torch.float32), ("f64", torch.float64), ("bf16", torch.bfloat16)):
        values = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=101, dtype=dtype)
        for label, used in (
            ("ragged", inputs.response_mask()),
            ("empty row", inputs.response_mask(empty=True)),
            ("bool", inputs.response_mask().bool()),
            ("one", torch.nn.functional.pad(torch.ones(1, 1), (0, inputs.LENGTH - 1, 0, inputs.BATCH - 1))),
            ("nothing", torch.zeros(inputs.BATCH, inputs.LENGTH)),
        ):
            for name in ("masked_sum", "masked_mean", "masked_var", "masked_whiten"):
                yield (
                    f"{name}/{kind}/{label}",
                    lambda name=name, values=values, used=used: outcome(side.get(f"{MODULE}:{name}"), values, used),
                )
        for name in ("masked_sum", "masked_mean"):
            yield (
                f"{name}/{kind}/axis",
                lambda name=name, values=values: outcome(side.get(f"{MODULE}:{name}"), values, mask, axis=-1),
            )
        yield (
            f"masked_var/{kind}/biased",
            lambda values=values: side.get(f"{MODULE}:masked_var")(values, mask, unbiased=False),
        )
        yield (
            f"masked_whiten/{kind}/mean kept",
            lambda values=values: side.get(f"{MODULE}:masked_whiten")(values, mask, shift_mean=False),
        )
    not_a_number = inputs.normal(inputs.BATCH, inputs.LENGTH, seed=102).masked_fill(mask == 0, float("nan"))
    for name in ("masked_sum", "masked_mean"):
        yield f"{name}/nan", lambda name=name: side.get(f"{MODULE}:{name}")(not_a_number, mask)
    yield (
        "clip_by_value",
        lambda: side.get(f"{MODULE}:clip_by_value")(not_a_number, not_a_number - 0.1, not_a_number + 0.2),
    )


@family("torch_functional.logprobs", MODULE)
def log_probabilities(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of log-probabilities and entropy from logits, with gradients."""
    generator = torch.Generator().manual_seed(111)
    labels = torch.randint(0, 17, (4, 9), generator=generator)
    for kind, dtype in (("f32", torch.float32), ("f64", torch.float64), ("bf16", torch.bfloat16)):
        for name, shape, arguments in (
            ("logprobs_from_logits", (4, 9), (labels,)),
            ("logprobs_from_logits_v2", (4, 9), (labels,)),
            ("entropy_from_logits", (4, 9), ()),
            ("entropy_from_logits_with_chunking", (9,), ()),
        ):

            def run(
                name: str = name,
                shape: tuple[int, ...] = shape,
                arguments: tuple[Any, ...] = arguments,
                dtype: torch.dtype = dtype,
            ) -> Any:
                logits = inputs.normal(*shape, 17, seed=112, scale=3.0, dtype=dtype).requires_grad_()
                result = side.get(f"{MODULE}:{name}")(logits, *arguments)
                result.sum().backward()
                return result, logits.grad

            yield f"{name}/{kind}", run
    yield (
        "entropy_from_logits_with_chunking/small chunks",
        lambda: side.get(f"{MODULE}:entropy_from_logits_with_chunking")(inputs.normal(9, 17, seed=113), chunk_size=2),
    )


@family("torch_functional.padding", MODULE)
def padding(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of padding, truncation, and the mask that ends at the end-of-sequence token."""
    tokens = torch.tensor([[5, 6, 2, 0, 0], [2, 5, 2, 6, 2], [5, 5, 5, 5, 5], [9, 8, 7, 3, 1]])
    for eos in (2, [2, 7], [1]):
        for dtype in (torch.int64, torch.bool):
            yield (
                f"get_response_mask/{eos}/{dtype}",
                lambda eos=eos, dtype=dtype: side.get(f"{MODULE}:get_response_mask")(tokens, eos, dtype=dtype),
            )
    for length in (3, 5, 8):
        for left in (False, True):
            yield (
                f"pad_sequence_to_length/{length}/{left}",
                lambda length=length, left=left: outcome(
                    side.get(f"{MODULE}:pad_sequence_to_length"), tokens, length, 0, left_pad=left
                ),
            )
            for truncation in ("left", "right", "middle", "error", "none"):
                yield (
                    f"postprocess_data/{length}/{left}/{truncation}",
                    lambda length=length, left=left, truncation=truncation: outcome(
                        side.get(f"{MODULE}:postprocess_data"),
                        input_ids=tokens,
                        attention_mask=torch.ones_like(tokens),
                        max_length=length,
                        pad_token_id=0,
                        left_pad=left,
                        truncation=truncation,
                    ),
                )


@family("torch_functional.schedules", MODULE)
def schedules(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute learning rates over a run."""
    for name, arguments in (
        ("get_constant_schedule_with_warmup", {"num_warmup_steps": 3}),
        ("get_constant_schedule_with_warmup", {"num_warmup_steps": 0}),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 3, "num_training_steps": 17}),
        (
            "get_cosine_schedule_with_warmup",
            {"num_warmup_steps": 2, "num_training_steps": 17, "min_lr_ratio": 0.1, "num_cycles": 0.7},
        ),
    ):

        def run(name: str = name, arguments: dict[str, Any] = arguments) -> Any:
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
            schedule = side.get(f"{MODULE}:{name}")(optimizer, **arguments)
            rates = []
            for _ in range(20):
                optimizer.step()
                schedule.step()
                rates.append(schedule.get_last_lr())
            return rates

        yield f"{name}/{'/'.join(str(value) for value in arguments.values())}", run


@family("model", "verl.utils.model")
def positions(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute position ids under left and right padding."""
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 0, 1, 1, 0]])
    yield "compute_position_id_with_mask", lambda: side.get("verl.utils.model:compute_position_id_with_mask")(mask)

    def merged() -> Any:
        parts = [{"a": torch.ones(2, 3)}, {"a": torch.zeros(1, 3), "b": torch.ones(1)}]
        return outcome(side.get("verl.utils.model:extract_multi_modal_inputs"), parts)

    yield "extract_multi_modal_inputs", merged


@family("ulysses", "verl.utils.ulysses")
def sequence_parallel(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield what sequence parallelism does to the inputs, in one process."""
    module = "verl.utils.ulysses"
    ids, position = torch.arange(7)[None], torch.arange(7)[None] + 2
    for size in (1, 2, 4):
        for positions in (position, position[None].repeat(3, 1, 1), None):
            label = "none" if positions is None else positions.dim()
            yield (
                f"ulysses_pad/{size}/{label}",
                lambda size=size, positions=positions: outcome(
                    side.get(f"{module}:ulysses_pad"), ids, positions, sp_size=size
                ),
            )
    yield (
        "ulysses_pad_and_slice_inputs",
        lambda: outcome(side.get(f"{module}:ulysses_pad_and_slice_inputs"), ids, position, sp_size=1),
    )


@family("torch_dtypes", "verl.utils.torch_dtypes")
def precision(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield names of dtypes."""
    precision_type = side.get("verl.utils.torch_dtypes:PrecisionType")
    names: list[Any] = ["fp16", "float16", "bf16", "bfloat16", "fp32", "float32", "32", 16, 32, "bf16-mixed", "none"]
    names += [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    for name in names:
        for method in ("to_dtype", "to_str", "is_fp16", "is_bf16", "is_fp32", "supported_type"):
            yield f"{method}/{name}", lambda method=method, name=name: outcome(getattr(precision_type, method), name)
    yield "supported_types", lambda: outcome(precision_type.supported_types)


@family("py_functional", "verl.utils.py_functional")
def dictionaries(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of merging dictionaries."""
    module = "verl.utils.py_functional"

    def append() -> Any:
        data: dict[str, Any] = {"a": [1.5]}
        side.get(f"{module}:append_to_dict")(data, {"a": 2, "b": 3.25})
        return data

    yield "append_to_dict", append
    yield "union_two_dict", lambda: side.get(f"{module}:union_two_dict")({"a": 1}, {"a": 1, "b": 2.5})
    yield (
        "union_two_dict/clash",
        lambda: type(outcome(side.get(f"{module}:union_two_dict"), {"a": 1}, {"a": 2})).__name__,
    )

    def prefixed() -> Any:
        data: dict[str, Any] = {}
        return outcome(side.get(f"{module}:append_to_dict"), data, {"a": 2}, prefix="p/"), data

    yield "append_to_dict/prefix", prefixed
