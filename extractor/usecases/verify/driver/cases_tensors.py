"""Cases of masked operations, log-probabilities, padding, schedules, and partitions by length."""

from itertools import product
from typing import Any

import torch

from . import inputs
from .cases import Call, Cases, family, kind_of

MODULE = "verl.utils.torch_functional"
DTYPES = (("f32", torch.float32), ("f64", torch.float64), ("bf16", torch.bfloat16))


def _make_first_mask(count: int) -> torch.Tensor:
    """Return a mask of the first tokens of the first row."""
    return torch.nn.functional.pad(torch.ones(1, count), (0, inputs.LENGTH - count, 0, inputs.BATCH - 1))


@family("torch_functional.masked", MODULE)
def masked(call: Call) -> Cases:
    """Yield cases of sums, means, variances and whitening under a mask."""
    mask, averages = inputs.response_mask(), ("masked_sum", "masked_mean")
    used = {
        "ragged": mask,
        "empty row": inputs.response_mask(empty=True),
        "bool": mask.bool(),
        "one": _make_first_mask(1),
        "nothing": torch.zeros(inputs.BATCH, inputs.LENGTH),
    }
    for kind, dtype in DTYPES:
        values = inputs.draw_per_token(101, dtype=dtype)
        for label, name in product(used, (*averages, "masked_var", "masked_whiten")):
            yield f"{name}/{kind}/{label}", call(name, values, used[label])
        for name in averages:
            yield f"{name}/{kind}/axis", call(name, values, mask, axis=-1)
        yield f"masked_var/{kind}/biased", call("masked_var", values, mask, unbiased=False)
        yield f"masked_whiten/{kind}/mean kept", call("masked_whiten", values, mask, shift_mean=False)
    for (label, axis), name in product((("first axis", 0), ("both axes", (0, 1))), averages):
        yield f"{name}/{label}", call(name, values, mask, axis=axis)
    for count, name in product((2, 3), ("masked_var", "masked_whiten")):
        yield f"{name}/{count} tokens", call(name, values, _make_first_mask(count))
    yield "clip_by_value", call("clip_by_value", values, values - 0.1, values + 0.2)


@family("torch_functional.logprobs", MODULE)
def log_probabilities(call: Call) -> Cases:
    """Yield cases of log-probabilities and entropy from logits, with gradients."""
    labels, chunked = inputs.integers(4, 9, seed=111, high=17), "entropy_from_logits_with_chunking"
    functions: dict[str, tuple[Any, ...]] = {
        "logprobs_from_logits": (labels,),
        "logprobs_from_logits_v2": (labels,),
        "entropy_from_logits": (),
    }

    def learned(name: str, logits: torch.Tensor, *arguments: Any) -> Any:
        result = call.get(name)(logits.requires_grad_(), *arguments)
        result.sum().backward()
        return result, logits.grad

    for (kind, dtype), (name, arguments) in product(DTYPES, {**functions, chunked: ()}.items()):
        shape = (9, 17) if name == chunked else (4, 9, 17)
        logits = inputs.normal(*shape, seed=112, scale=3.0, dtype=dtype)
        yield f"{name}/{kind}", call(learned, name, logits, *arguments)
    squares = "calculate_sum_pi_squared_from_logits"
    yield squares, call(squares, inputs.normal(4, 9, 17, seed=113))
    yield f"{chunked}/small chunks", call(chunked, inputs.normal(9, 17, seed=113), chunk_size=2)
    rows = [torch.arange(length, dtype=torch.float32) for length in (2, 0, 3)]
    nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    yield "expand_as_nested", lambda: [call("expand_as_nested", torch.rand(shape), nested)() for shape in ((3,), (2,))]


@family("torch_functional.padding", MODULE)
def padding(call: Call) -> Cases:
    """Yield cases of padding, truncation and end-of-sequence masks."""
    tokens = torch.tensor([[5, 6, 2, 0, 0], [2, 5, 2, 6, 2], [5, 5, 5, 5, 5], [9, 8, 7, 3, 1]])
    ones = torch.ones_like(tokens)
    for eos, dtype in product((2, [2, 7], [1]), (torch.int64, torch.bool)):
        yield f"get_response_mask/{eos}/{dtype}", call("get_response_mask", tokens, eos, dtype=dtype)
    for length, left in product((1, 2, 3, 4, 5, 6, 8), (False, True)):
        yield (
            f"pad_sequence_to_length/{length}/{left}",
            call("pad_sequence_to_length", tokens, length, 0, left_pad=left),
        )
        for truncation in ("left", "right", "middle", "error", "none"):
            settings = {"max_length": length, "pad_token_id": 0, "left_pad": left, "truncation": truncation}
            case = call("postprocess_data", input_ids=tokens, attention_mask=ones, **settings)
            yield f"postprocess_data/{length}/{left}/{truncation}", case


@family("torch_functional.schedules", MODULE)
def schedules(call: Call) -> Cases:
    """Compute learning rates over a run."""

    def rates(name: str, settings: dict[str, Any]) -> Any:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        schedule = call(f"get_{name}_schedule_with_warmup", optimizer, **settings)()
        if isinstance(schedule, Exception):
            return schedule
        found = [schedule.get_last_lr()]
        for _ in range(20):
            optimizer.step()
            schedule.step()
            found.append(schedule.get_last_lr())
        return found

    cosines = [{"num_warmup_steps": warmup, "num_training_steps": steps} for warmup, steps in ((3, 3), (3, 4), (3, 17))]
    for ratio in ({"min_lr_ratio": 1.0}, {"min_lr_ratio": 1.5}):
        cosines.append({"num_warmup_steps": 1, "num_training_steps": 9, **ratio})
    for ratio in ({"init_lr_ratio": 0.25, "zero_indexed_step": False}, {"init_lr_ratio": -1.0}, {"init_lr_ratio": 1.0}):
        cosines.append({"num_warmup_steps": 4, "num_training_steps": 9, **ratio})
    cosines.append({"num_warmup_steps": 2, "num_training_steps": 17, "min_lr_ratio": 0.1, "num_cycles": 0.7})
    constants = [{"num_warmup_steps": steps} for steps in (3, 0, 1)]
    for name, settings in (*product(["constant"], constants), *product(["cosine"], cosines)):
        label = "/".join(str(value) for value in settings.values())
        yield f"get_{name}_schedule_with_warmup/{label}", call(rates, name, settings)


@family("model", "verl.utils.model")
def positions(call: Call) -> Cases:
    """Compute position ids under left and right padding."""
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 0, 1, 1, 0]])
    yield "compute_position_id_with_mask", call("compute_position_id_with_mask", mask)
    parts = [{"a": torch.ones(2, 3)}, {"a": torch.zeros(1, 3), "b": torch.ones(1)}]
    yield "extract_multi_modal_inputs", call("extract_multi_modal_inputs", parts)


@family("ulysses", "verl.utils.ulysses")
def sequence_parallel(call: Call) -> Cases:
    """Yield what sequence parallelism does to the inputs, in one process."""
    ids, position = torch.arange(7)[None], torch.arange(7)[None] + 2
    for size, positions in product((1, 2, 4), (position, position[None].repeat(3, 1, 1), None)):
        label = "none" if positions is None else positions.dim()
        yield f"ulysses_pad/{size}/{label}", call("ulysses_pad", ids, positions, sp_size=size)


@family("torch_dtypes", "verl.utils.torch_dtypes")
def precision(call: Call) -> Cases:
    """Yield names of dtypes."""
    names = ("fp16", "float16", "bf16", "bfloat16", "fp32", "float32", "32", 16, 32, "bf16-mixed", "none")
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    methods = ("to_dtype", "to_str", "is_fp16", "is_bf16", "is_fp32", "supported_type")
    kinds = call.get("PrecisionType")
    for name, method in product((*names, *dtypes), methods):
        yield f"{method}/{name!r}", call.on(lambda: kinds, method, name)


@family("py_functional", "verl.utils.py_functional")
def dictionaries(call: Call) -> Cases:
    """Yield cases of merging dictionaries."""

    def appended(*values: dict[str, Any], **options: Any) -> Any:
        data: dict[str, Any] = {"a": [1.5]}
        return [call("append_to_dict", data, value, **options)() for value in values], data

    def united() -> Any:
        ours: dict[str, Any] = {"a": [1], "b": float("nan")}
        made = call("union_two_dict", ours, {"a": [1], "c": 3})()
        return made, ours, kind_of(call("union_two_dict", ours, {"b": 2}))()

    yield "append_to_dict", lambda: appended({"a": [3]}, {"a": 2, "b": 3.25})
    yield "append_to_dict/prefix", lambda: appended({"a": 2}, prefix="p/")
    yield "union_two_dict/state", united


@family("seqlen_balancing", "verl.utils.seqlen_balancing")
def balancing(call: Call) -> Cases:
    """Make partitions, micro-batches by token budget, and their way back."""
    lengths = inputs.integers(24, seed=501, low=1, high=200).tolist()
    for parts, equal in product((1, 3, 8), (True, False)):
        for name in ("get_seqlen_balanced_partitions", "karmarkar_karp"):
            yield f"{name}/{parts}/{equal}", call(name, lengths, k_partitions=parts, equal_size=equal)
    for name in ("ceildiv", "roundup_divisible"):
        yield name, lambda: [call.get(name)(value, 4) for value in range(1, 12)]
    yield "calculate_workload", call("calculate_workload", torch.tensor(lengths))
    yield "log_seqlen_unbalance", call("log_seqlen_unbalance", lengths, [[0, 1, 2], [3, 4, 5]], "p")

    def batch() -> Any:
        mask = torch.cat([torch.ones(inputs.BATCH, 3, dtype=torch.long), inputs.response_mask()], dim=1)
        tensors = {"attention_mask": mask, "input_ids": mask * 5, "scores": inputs.normal(inputs.BATCH, 2, seed=502)}
        return call.get("verl.protocol:DataProto").from_dict(tensors=tensors)

    def rearranged(budget: int, **options: Any) -> Any:
        return call("rearrange_micro_batches", batch().batch, budget, **options)()

    def there_and_back() -> Any:
        parts, order = call.get("prepare_dynamic_batch")(batch(), max_token_len=45)
        scores = torch.cat([part.batch["scores"] for part in parts])
        return parts, order, call.get("restore_dynamic_batch")(scores, order)

    for budget, least in product((20, 45, 200), (None, 5)):
        case = call(rearranged, budget, min_num_micro_batch=least)
        yield f"rearrange_micro_batches/{budget}/{least}", case
    yield "rearrange_micro_batches/divided", call(rearranged, 45, num_batches_divided_by=4)
    yield "there and back", there_and_back
