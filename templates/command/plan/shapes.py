"""Models of a run without their weights, and what their passes take."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.cache_utils import DynamicCache

from ..errors import ConfigError
from ..shims.device import to_dtype
from ..shims.tensors import ENTROPY_IS_REPORTED, having
from ..vendored.utils import fsdp_utils
from ..vendored.utils.torch_functional import entropy_from_logits, logprobs_from_logits
from .tracing import Tracker, Usage, size_of, weights_of, widening_softmax, without_numbers

BLOCK = 64  # weights that share a scale in bitsandbytes' 4 bits
SCALES = 256  # scales that share one, where they are packed as well
# What is known of the other processes: this one is any but the first, which alone would read weights.
ALONE = SimpleNamespace(rank=1, world_size=1, on_driver=lambda function, **_: function())


def attention_for(auto_class: Any, model_config: Any, said: str | None = None) -> str:
    """Return the name of what computes a model's attention.

    Where nothing is said it is sdpa; or eager, for an architecture that transformers has no sdpa for, and for a model
    that caps the logits of its attention (Gemma 2), as sdpa does not.

    Args:
        auto_class: the class of transformers that chooses the architecture.
        model_config: the model's own config.
        said: what the settings say.
    """
    if said:
        return said
    architecture = auto_class._model_mapping.get(type(model_config), None)
    capped = getattr(model_config.get_text_config(), "attn_logit_softcapping", None)
    return "eager" if capped or not getattr(architecture, "_supports_sdpa", True) else "sdpa"


class Entropy(Enum):
    """What becomes of the entropies of a pass: they are not computed, reported, or learned from as well."""

    NONE = 0
    REPORTED = 1
    LEARNED = 2


class ModelShape:
    """A model that has no weights, and what its passes take.

    Attributes:
        weights: bytes of all weights.
        trained: bytes of those that are trained.
        largest: bytes of the largest of them.

    Args:
        model_config: of transformers.
        model: the `model` section that it belongs to.
        fsdp_config: its dtypes.
        auto_class: the class of transformers that chooses the architecture.
        shared: whether processes share it out by FSDP2, which has passes compute with weights in `fsdp_config.dtype`.
        start: where its adapter is; None: it is trained without one, or not at all.
        quantization: the section `local.quantization`; None: its weights are not packed.
        max_logits_mb: see `local.max_logits_mb`.
        device: that the plan is for, cpu or cuda.
    """

    def __init__(
        self,
        model_config: Any,
        model: Any,
        fsdp_config: Any,
        auto_class: Any,
        *,
        shared: bool,
        start: Any = None,
        quantization: Any = None,
        max_logits_mb: float | None = None,
        device: str,
    ) -> None:
        self.dtype, kept = to_dtype(fsdp_config.dtype), to_dtype(fsdp_config.model_dtype)
        said = OmegaConf.select(model, "override_config.attn_implementation")
        attention = attention_for(auto_class, model_config, said)
        self.masked = not attention.startswith("flash")
        self.packed = bool(model.use_remove_padding)
        usual = attention if attention in ("sdpa", "eager") else "sdpa"
        with torch.device("meta"):
            module = auto_class.from_config(
                model_config, attn_implementation=usual, trust_remote_code=model.trust_remote_code
            )
        self.module: Any = module.to(kept)
        self.unpacked = 0  # bytes of the largest matrix that is unpacked while its layer computes
        matrices = _packable(self.module) if quantization is not None else []
        if start is not None:
            from ..workers.lora import add_adapter

            self.module = add_adapter(self.module, model, start, ALONE)  # type: ignore[arg-type]
        parameters = [*self.module.parameters()]
        taken = {id(matrix) for matrix in matrices}
        self.weights = size_of(one for one in parameters if id(one) not in taken)
        if quantization is not None:
            self.weights += sum(packed_size(one.numel(), quantization.bnb_4bit_use_double_quant) for one in matrices)
            self.unpacked = max(one.numel() for one in matrices) * self.dtype.itemsize
        trained = [one for one in parameters if one.requires_grad]
        self.trained = size_of(trained)
        self.largest = max((size_of([one]) for one in trained), default=0)
        self.kept = kept
        self._shared = shared
        for matrix in [*parameters] if shared else matrices:
            if matrix.is_floating_point():
                matrix.data = matrix.data.to(self.dtype)
        self._mode = FakeTensorMode()
        with self._mode:
            without_numbers(self.module)
        if model.enable_gradient_checkpointing:
            self.module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.vocabulary = int(model_config.get_text_config().vocab_size)
        self._limit, self._device = max_logits_mb, device
        self._pieces: Any = None
        self._known: dict[tuple[Any, ...], Any] = {}

    def _autocast(self, keeps: bool = False) -> AbstractContextManager[object]:
        """Compute in the dtype of passes within it; a rollout's `keeps` weights in it, see `keeping_casts`."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast("cpu", dtype=self.dtype, cache_enabled=keeps)

    @cached_property
    def units(self) -> tuple[int, int, int]:
        """Bytes, in the dtype of passes, of what FSDP2 gathers at once: the largest layer, matrix, and the rest.

        A matrix is one of embeddings or, from verl 0.7.1 on, the output's; one that is both is part of the rest.
        """
        layers, matrices = ([_numbers(one) for one in modules] for modules in self._parts())
        sizes = max(layers, default=0), max(matrices, default=0), _numbers(self.module) - sum(layers) - sum(matrices)
        return tuple(size * self.dtype.itemsize for size in sizes)  # type: ignore[return-value]

    def _parts(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """Return the layers, and the matrices that are gathered by themselves."""
        names = getattr(self.module, "_no_split_modules", None) or ()
        modules = [*self.module.modules()]
        chosen = getattr(fsdp_utils, "_select_fsdp2_wrap_targets", None)
        if chosen is not None:
            matrices = [one for one in chosen(self.module, names) if type(one).__name__ not in names]
        else:
            tied = getattr(self.module.config, "tie_word_embeddings", True)
            matrices = [] if tied else [one for one in modules if isinstance(one, nn.Embedding)]
        return [one for one in modules if type(one).__name__ in names], matrices

    def forward(self, rows: int, length: int, *, entropy: bool) -> Usage:
        """Return what a pass takes from which nothing is learned.

        Args:
            rows: of the pass.
            length: tokens of each.
            entropy: whether entropies are computed as well.
        """
        return self._once(("forward", rows, length, entropy), lambda: self._forward(rows, length, entropy))

    def update(self, rows: int, length: int, *, passes: int, entropy: Entropy, share: float = 1.0) -> Usage:
        """Return what the passes of an optimizer step take, with the gradients that are held meanwhile.

        Where processes share the model out, a gradient is whole until its part of the model is done with, and then a
        process's share of it: of what is neither a layer nor embeddings, at the end of the pass.

        Args:
            rows: of a pass.
            length: tokens of each.
            passes: how many there are.
            entropy: whether entropies are computed as well, and learned from: see `Entropy`.
            share: the part of each gradient that a process keeps.
        """
        again = passes > 1  # then all gradients are there from the start
        key = ("update", rows, length, again, entropy, share)
        return self._once(key, lambda: self._update(rows, length, again, entropy, share))

    def reading(self, rows: int, length: int) -> tuple[Usage, int]:
        """Return what reading prompts takes, and how many bytes keys and values of one token of one row are."""

        def read() -> tuple[Usage, int]:
            with self._mode, torch.no_grad(), self._autocast(keeps=True):
                cache = DynamicCache()
                with Tracker(weights_of(self.module.eval()), self.vocabulary) as tracker:
                    arguments = self._inputs(rows, length)
                    self.module(**arguments, past_key_values=cache, use_cache=True, logits_to_keep=1)
                size = self.dtype.itemsize
                held = sum(states.numel() * size for layer in cache.layers for states in (layer.keys, layer.values))
            return tracker.peak, held // (rows * length)

        found: tuple[Usage, int] = self._once(("reading", rows, length), read)
        return found

    def _once(self, key: tuple[Any, ...], work: Callable[[], Any]) -> Any:
        if key not in self._known:
            try:
                with widening_softmax() if self._device == "cuda" else nullcontext():
                    self._known[key] = work()
            except Exception as error:
                raise CannotTrace(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from error
        return self._known[key]

    def _inputs(self, rows: int, length: int) -> dict[str, Any]:
        if self.packed:
            rows, length = 1, rows * length
        ids = torch.zeros((rows, length), dtype=torch.long)
        mask = _mask(rows, length) if self.masked and length > 1 else None
        return {"input_ids": ids, "attention_mask": mask, "position_ids": torch.zeros_like(ids)}

    def _forward(self, rows: int, length: int, entropy: bool) -> Usage:
        with self._mode, torch.no_grad():
            in_pieces = self._in_pieces(rows * length)
            with Tracker(weights_of(self.module.eval()), self.vocabulary) as tracker, self._autocast():
                self._outputs(self._inputs(rows, length), in_pieces, entropy)
        return replace(tracker.peak, activations=tracker.peak.activations + self.unpacked)

    def _update(self, rows: int, length: int, again: bool, entropy: Entropy, share: float) -> Usage:
        trained = [one for one in self.module.parameters() if one.requires_grad]
        with self._mode:
            in_pieces = self._in_pieces(rows * length)
            tracker = Tracker(weights_of(self.module.train()), self.vocabulary)
            hook = self._gradient_hook(tracker, 0.0 if again else share)
            hooks = [one.register_post_accumulate_grad_hook(hook) for one in trained]
            try:
                with tracker, having(ENTROPY_IS_REPORTED, entropy == Entropy.REPORTED):
                    for one in trained if again and not self._shared else ():
                        one.grad = torch.empty_like(one)
                        tracker.mark_gradient(one.grad)
                    if again and self._shared:
                        tracker.hold(int(self.trained * share))
                    with self._autocast():
                        inputs = self._inputs(rows, length)
                        found = self._outputs(inputs, in_pieces, entropy != Entropy.NONE)
                    found.sum().backward()
                    del found
            finally:
                for hook in hooks:
                    hook.remove()
                self.module.zero_grad(set_to_none=True)
        return replace(tracker.peak, activations=tracker.peak.activations + self.unpacked)

    def _gradient_hook(self, tracker: Tracker, share: float) -> Callable[[torch.Tensor], None]:
        """Return what is told of each gradient: FSDP2 keeps a share of it when its part of the model is done with."""
        done = {id(weight) for modules in self._parts() for one in modules for weight in one.parameters()}

        def hook(parameter: torch.Tensor) -> None:
            assert parameter.grad is not None
            if self._shared and id(parameter) in done:
                parameter.grad = None
                tracker.hold(int(parameter.numel() * self.kept.itemsize * share))
            else:
                tracker.mark_gradient(parameter.grad)

        return hook

    def _in_pieces(self, tokens: int) -> Any:
        """Return the last layer, a `LogitsInPieces`, if it computes so many tokens in pieces."""
        if self.module.get_output_embeddings() is None or self._limit is None:
            return None
        if self._pieces is None:
            self._pieces = _pieces_of(self.module, self._limit)
        with self._pieces.in_use():
            return self._pieces if self._pieces.wanted(tokens) else None

    def _outputs(self, inputs: dict[str, Any], in_pieces: Any, entropy: bool) -> torch.Tensor:
        """Return what a pass gives for each token: log-probabilities, or the values of a critic."""
        if in_pieces is not None:
            from ..workers.logits import Asked

            in_pieces.asked = Asked(torch.roll(inputs["input_ids"], shifts=-1, dims=-1), 1.0, entropy)
            try:
                found = self.module(**inputs, use_cache=False).logits
            finally:
                in_pieces.asked = None
            both: torch.Tensor = found[..., 0] + found[..., 1]
            return both
        logits = self.module(**inputs, use_cache=False).logits
        if logits.shape[-1] != self.vocabulary:
            return logits[..., 0]
        log_probs = logprobs_from_logits(logits, inputs["input_ids"], inplace_backward=not entropy)
        return log_probs + entropy_from_logits(logits) if entropy else log_probs


def _pieces_of(module: Any, limit: float) -> Any:
    """Return a model's last layer, computing as in a run.

    Whether logits are what it gives is seen from whether anything is made of them.
    """
    from ..workers.logits import LogitsInPieces  # of a feature

    class Pieces(LogitsInPieces):
        def _has_plain_logits(self) -> bool:
            given: list[torch.Tensor] = []
            hook = self._head.register_forward_hook(lambda _module, _inputs, output: given.append(output))
            try:
                ids = torch.zeros((1, 2), dtype=torch.long)
                logits = self._module(input_ids=ids, use_cache=False, attention_mask=_mask(1, 2)).logits
            finally:
                hook.remove()
            return len(given) == 1 and (logits is given[0] or logits.dtype != given[0].dtype)

    return Pieces(module, limit)


class CannotTrace(Exception):
    """The model's code needs numbers to know what it computes, as that of many mixtures of experts does."""


def _numbers(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def packed_size(weights: int, packs_scales: bool) -> int:
    """Return the bytes of so many weights in 4 bits, with their scales."""
    scales = -(-weights // BLOCK)
    return weights // 2 + (scales + 4 * -(-scales // SCALES) if packs_scales else 4 * scales)


def model_config_of(path: str, model: Any, key: str, **settings: Any) -> Any:
    """Read the config.json of a model; its weights need not be there.

    Args:
        path: a directory, or a name on the hub, of which the config may be in its cache.
        model: the `model` section that it belongs to.
        key: the setting that names it, for messages.
        settings: further settings of the config.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    from transformers import AutoConfig

    try:
        found: Any = AutoConfig.from_pretrained(path, trust_remote_code=model.trust_remote_code)
    except Exception as error:  # of many classes, depending on the value that does not fit
        text = " ".join(str(error).split())
        raise ConfigError(
            f"no config.json of {path}, which a plan is made from: {text}",
            f"{key} is a directory that has one (weights need not be there), or a name on the hub",
        ) from error
    override: Any = OmegaConf.to_container(model.override_config, resolve=True)
    for name, value in {**settings, **override}.items():
        if name != "attn_implementation" and not isinstance(value, dict):
            setattr(found, name, value)
    return found


def _packable(module: nn.Module) -> list[nn.Parameter]:
    """Return the matrices that bitsandbytes packs: those of all linear layers but the last."""
    head = module.get_output_embeddings()  # type: ignore[operator]
    return [one.weight for one in module.modules() if isinstance(one, nn.Linear) and one is not head]


def _mask(rows: int, length: int) -> torch.Tensor:
    """Return a mask of the kind that transformers makes of prompts of different lengths: (rows, 1, length, length)."""
    return torch.ones((rows, 1, length, length), dtype=torch.bool)
