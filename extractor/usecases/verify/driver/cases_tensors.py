# mypy: disable-error-code="misc"
"""Cases of masked operations, log-probabilities, padding and learning-rate schedules."""

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
    for label, shape in (("first axis", 0), ("both axes", (0, 1))):
        for name in ("masked_sum", "masked_mean"):
            yield (
                f"{name}/{label}",
                lambda name=name, shape=shape: outcome(side.get(f"{MODULE}:{name}"), values, mask, axis=shape),
            )
    for count in (2, 3):
        few = torch.nn.functional.pad(torch.ones(1, count), (0, inputs.LENGTH - count, 0, inputs.BATCH - 1))
        for name in ("masked_var", "masked_whiten"):
            yield f"{name}/{count} tokens", lambda name=name, few=few: side.get(f"{MODULE}:{name}")(values, few)
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
        "calculate_sum_pi_squared_from_logits",
        lambda: side.get(f"{MODULE}:calculate_sum_pi_squared_from_logits")(inputs.normal(4, 9, 17, seed=113)),
    )
    for name in ("logprobs_from_logits", "logprobs_from_logits_v2", "entropy_from_logits"):

        def kept(name: str = name) -> Any:
            logits = inputs.normal(4, 9, 17, seed=114)
            before = logits.clone()
            side.get(f"{MODULE}:{name}")(logits, *([labels] if name.startswith("log") else []))
            return torch.equal(before, logits)

        yield f"{name}/what it is given stays", kept

    def expanded(tensor: torch.Tensor, lengths: tuple[int, ...] = (2, 0, 3)) -> Any:
        rows = [torch.arange(length, dtype=torch.float32) for length in lengths]
        nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        return outcome(side.get(f"{MODULE}:expand_as_nested"), tensor, nested)

    yield "expand_as_nested", lambda: [expanded(torch.rand(3)), expanded(torch.rand(2)), expanded(torch.rand(3, 1))]
    yield "expand_as_nested/padded", lambda: outcome(side.get(f"{MODULE}:expand_as_nested"), labels[:, 0], labels)
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
    yield (
        "postprocess_data/by default",
        lambda: [
            outcome(side.get(f"{MODULE}:postprocess_data"), tokens, torch.ones_like(tokens), length, 0)
            for length in (4, 5, 7)
        ],
    )
    yield "pad_sequence_to_length/by default", lambda: side.get(f"{MODULE}:pad_sequence_to_length")(tokens, 8, 9)
    yield "get_response_mask/by default", lambda: side.get(f"{MODULE}:get_response_mask")(tokens)
    for length in (1, 2, 3, 4, 5, 6, 8):
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
        ("get_constant_schedule_with_warmup", {"num_warmup_steps": 1}),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 3, "num_training_steps": 3}),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 3, "num_training_steps": 4}),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 1, "num_training_steps": 9, "min_lr_ratio": 1.0}),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 1, "num_training_steps": 9, "min_lr_ratio": 1.5}),
        (
            "get_cosine_schedule_with_warmup",
            {"num_warmup_steps": 4, "num_training_steps": 9, "init_lr_ratio": 0.25, "zero_indexed_step": False},
        ),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 4, "num_training_steps": 9, "init_lr_ratio": -1.0}),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 4, "num_training_steps": 9, "init_lr_ratio": 1.0}),
        ("get_cosine_schedule_with_warmup", {"num_warmup_steps": 3, "num_training_steps": 17}),
        (
            "get_cosine_schedule_with_warmup",
            {"num_warmup_steps": 2, "num_training_steps": 17, "min_lr_ratio": 0.1, "num_cycles": 0.7},
        ),
    ):

        def run(name: str = name, arguments: dict[str, Any] = arguments) -> Any:
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
            schedule = outcome(side.get(f"{MODULE}:{name}"), optimizer, **arguments)
            if isinstance(schedule, Exception):
                return schedule
            rates = [schedule.get_last_lr()]
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

    def appended(*values: Any) -> Any:
        data: dict[str, Any] = {}
        return [outcome(side.get(f"{module}:append_to_dict"), data, {"a": value}) for value in values], data

    yield "append_to_dict/lists", lambda: appended([1, 2], [3], 4)
    yield "union_two_dict/state", lambda: _united(side.get(f"{module}:union_two_dict"))


def _united(function: Any) -> Any:
    ours: dict[str, Any] = {"a": [1], "b": float("nan")}
    return outcome(function, ours, {"a": [1], "c": 3}), ours, type(outcome(function, ours, {"b": 2})).__name__
