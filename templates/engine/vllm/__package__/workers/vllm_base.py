# vextract:template - edit freely
"""What the in-process engine is built on: vLLM's `LLM`. This release of verl has vLLM in servers behind Ray only.

It does what upstream's `vLLMRollout` did in the releases that had it, with the same settings.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from vllm import LLM, SamplingParams

from ..data.images import check_read, engine_inputs, placeholders, processor_of
from ..switches import MULTIMODAL
from ..vendored.protocol import DataProto
from .rollout_interface import gives_log_probs
from .servers.assembly import assemble
from .servers.interface import Response


class VllmRollout:
    """Writes responses by a vLLM that has no memory of its own but this process's.

    Args:
        config: the `rollout` section of the config, with `seed`, this process's own.
        model_path: a directory in Hugging Face format, or a name on the hub.
        tokenizer: of the model.
        trust_remote_code: whether the model may bring code of its own.
    """

    def __init__(self, config: Any, model_path: str, tokenizer: Any, trust_remote_code: bool) -> None:
        self.config = config
        self.pad_token_id = tokenizer.pad_token_id
        max_model_len = int(config.max_model_len or config.prompt_length + config.response_length)
        if config.max_num_batched_tokens < max_model_len and config.enable_chunked_prefill:
            raise ValueError(
                f"with enable_chunked_prefill, max_num_batched_tokens={config.max_num_batched_tokens} must not be less "
                f"than max_model_len={max_model_len}"
            )
        further = {name: value for name, value in config.engine_kwargs.vllm.items() if value is not None}
        self.inference_engine = LLM(
            model=model_path,
            enable_sleep_mode=config.free_cache_engine,
            tensor_parallel_size=config.tensor_model_parallel_size,
            distributed_executor_backend="external_launcher",
            dtype=config.dtype,
            enforce_eager=config.enforce_eager,
            gpu_memory_utilization=config.gpu_memory_utilization,
            disable_custom_all_reduce=True,
            skip_tokenizer_init=False,
            max_model_len=max_model_len,
            max_num_seqs=config.max_num_seqs,
            load_format=config.load_format,
            disable_log_stats=config.disable_log_stats,
            max_num_batched_tokens=config.max_num_batched_tokens,
            enable_chunked_prefill=config.enable_chunked_prefill,
            enable_prefix_caching=config.enable_prefix_caching,
            trust_remote_code=trust_remote_code,
            seed=config.seed,
            **further,
        )
        self.sampling_params = SamplingParams(
            n=1, max_tokens=config.response_length, ignore_eos=config.ignore_eos, detokenize=False
        )
        if MULTIMODAL:
            self.image_settings: dict[str, Any] = {}
            if (processor := processor_of(tokenizer)) is not None:
                self.sampling_params.logit_bias = dict.fromkeys(placeholders(processor), -100.0)

    def generate_sequences(self, prompts: DataProto) -> DataProto:
        """Write a response to each prompt, by `sampling_params`; see `assemble` for what comes back.

        Args:
            prompts: input_ids, attention_mask, position_ids, (bs, prompt_length) int64, padded on the left, and the
                column raw_prompt_ids; `meta_info` has eos_token_id, the tokens that end a response.
        """
        with_log_probs = gives_log_probs(self.config, prompts.meta_info)
        inputs: Any = [{"prompt_token_ids": list(ids)} for ids in prompts.non_tensor_batch["raw_prompt_ids"]]
        if MULTIMODAL:
            inputs = [*engine_inputs(prompts.non_tensor_batch, self.image_settings)]
        of_tokens = 0 if with_log_probs else None  # those of the tokens themselves, and of no others
        with self.update_sampling_params(logprobs=of_tokens):
            outputs = self.inference_engine.generate(inputs, self.sampling_params, use_tqdm=False)
        if MULTIMODAL:
            check_read(outputs, prompts)
        answers = [output.outputs[0] for output in outputs]
        responses = [Response(list(answer.token_ids), _log_probs(answer)) for answer in answers]
        eos = prompts.meta_info["eos_token_id"]
        return assemble(
            prompts.to("cpu"), responses, self.config.response_length, self.pad_token_id, eos, with_log_probs
        )

    @contextlib.contextmanager
    def update_sampling_params(self, **settings: Any) -> Iterator[None]:
        """Sample responses with other settings within it."""
        before = {name: getattr(self.sampling_params, name) for name in settings}
        for name, value in settings.items():
            setattr(self.sampling_params, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self.sampling_params, name, value)


def _log_probs(answer: Any) -> list[float] | None:
    """Return the log-probability of each token of a response, as it was sampled; None: nobody asked for them."""
    if answer.logprobs is None:
        return None
    return [entry[token].logprob for token, entry in zip(answer.token_ids, answer.logprobs, strict=True)]
