# vextract:template - edit freely
"""SGLang's server, by its native API: /generate, /update_weights_from_disk and the memory saver.

Written after SGLang's documentation (Native APIs, Sampling Parameters, SGLang for RL Systems).
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ...errors import ConfigError
from ...shims.device import to_dtype
from ..rollout_interface import RolloutError
from .answers import BadAnswer, check_equal, field, of_kind
from .arguments import copies_on, extra_arguments, flags, interpreter, model_overrides, on_gpu
from .http import MEGABYTE, Ask, Connection
from .interface import Request, Response, Rules, Sampling
from .responses import Written, check_response
from .weight_files import buckets

CHECK_SECONDS = 60.0
# What an answer may have for each token of prompt and response: its id, its text, its log-probability.
TOKEN_BYTES = 1024
# SGLang keeps so many places of its context for itself: where prompt and response fill it, the response ends earlier.
SPARE = 2


class SglangServer:
    """SGLang behind HTTP (0.5.3 or newer).

    Args:
        connection: to the server.
        config: the whole config.
        rules: what every response must keep to.
    """

    name = "SGLang"

    def __init__(self, connection: Connection, config: Any, rules: Rules) -> None:
        self.connection = connection
        self.config = config
        self.rules = replace(rules, spare=SPARE)
        self.dtype = to_dtype(config.actor_rollout_ref.rollout.dtype)
        self.bucket_bytes = config.local.server.bucket_megabytes * MEGABYTE
        self.model_name = Path(config.actor_rollout_ref.model.path).name

    @staticmethod
    def command(config: Any, port: int, max_model_len: int, gpus: int, adapter: Any = None) -> list[str]:
        """Return the command line that starts one, on so many GPUs; 0: on the CPU."""
        rollout, model, server = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model, config.local.server
        settings = {
            "model_path": model.path,
            "host": server.host,
            "port": port,
            "dtype": str(to_dtype(rollout.dtype)).removeprefix("torch."),
            "load_format": rollout.load_format,
            "random_seed": config.local.seed,
            "trust_remote_code": model.trust_remote_code,
            "json_model_override_args": model_overrides(config) or None,
            "sampling_defaults": "openai",  # what each request says, and nothing of the model's own
            "tp_size": rollout.tensor_model_parallel_size,
            "context_length": max_model_len,
            "max_running_requests": rollout.max_num_seqs,
            "disable_radix_cache": not rollout.enable_prefix_caching,
            "disable_cuda_graph": bool(rollout.enforce_eager),
            "enable_deterministic_inference": bool(server.repeatable),
        }
        if on_gpu():
            settings["dp_size"] = copies_on(gpus, config, "--dp-size")
            settings["mem_fraction_static"] = rollout.gpu_memory_utilization
            settings["enable_memory_saver"] = bool(rollout.free_cache_engine)
        else:
            settings["device"] = "cpu"
        module = ["-m", "sglang.launch_server"]
        return [interpreter(config), *module, *flags(settings), *extra_arguments(config, "sglang")]

    @staticmethod
    def environment() -> Mapping[str, str]:
        """Return the variables to set for it: none."""
        return {}

    @staticmethod
    def healthy(connection: Connection) -> bool:
        """Tell whether it answers, and can generate."""
        return connection.answers("/health_generate")

    def check(self, model_config: Any, max_model_len: int) -> None:
        """Raise ConfigError if it serves another model. That its weights can be replaced shows when they are."""
        hint = "start SGLang there, or leave local.server.url out: the trainer then starts one"
        try:
            path, generates, _ = self.connection.get("/get_model_info", _served, CHECK_SECONDS)
        except RolloutError as error:
            raise ConfigError(f"no SGLang server answers: {error.message}", hint) from error
        if not generates or Path(path).name != self.model_name:
            raise ConfigError(
                f"the server at {self.connection.url} serves another model, {path}",
                f"start it with --model-path {self.config.actor_rollout_ref.model.path}",
            )

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, ended: Callable[[int, Response], None] | None = None
    ) -> list[Response]:
        """Return the responses, in the order of the requests; `ended` is told each as it comes."""
        return self.connection.post_all("/generate", [self._ask(request, sampling) for request in requests], ended)

    async def write(self, request: Request, sampling: Sampling) -> Response:
        """Return one response."""
        return await self.connection.answer("/generate", self._ask(request, sampling))

    def update(self, weights: Iterable[tuple[str, torch.Tensor]], directory: str, version: str) -> None:
        """Replace its weights by a checkpoint in `directory`, which is gone again afterwards.

        SGLang calls its model by the path of its weights from then on, so this has the model's own name at its end.
        """
        checkpoint = Path(directory) / self.model_name
        checkpoint.mkdir()
        try:
            for index, bucket in enumerate(buckets(weights, self.bucket_bytes, self.dtype)):
                save_file(bucket, checkpoint / f"model-{index:05d}.safetensors", metadata={"format": "pt"})
            body = {"model_path": str(checkpoint), "load_format": "auto", "weight_version": version}
            refused = self.connection.post("/update_weights_from_disk", body, _refusal)
        finally:
            shutil.rmtree(checkpoint)
        if refused is not None:
            raise RolloutError(
                f"SGLang at {self.connection.url} did not take the weights: {refused}",
                "check that it serves the same model and can read local.server.weights_directory",
            )
        self.connection.tell("/flush_cache")

    def weights_version(self) -> str | None:
        """Return the `version` of the last update that it has taken; None if it does not tell."""
        return self.connection.get("/get_model_info", _served, CHECK_SECONDS)[2]

    def sleep(self) -> None:
        """Let it give back the memory of its cache. It keeps its weights, which would be lost with their memory."""
        self.connection.tell("/release_memory_occupation", {"tags": ["kv_cache"]})

    def wake(self, part: str) -> None:
        """Let it take back GPU memory, for "weights" or for the "kv_cache"."""
        if part == "kv_cache":
            self.connection.tell("/resume_memory_occupation", {"tags": [part]})

    def _ask(self, request: Request, sampling: Sampling) -> Ask[Response]:
        params: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "ignore_eos": sampling.ignore_eos,
            "stop_token_ids": list(sampling.stop_token_ids),
            "skip_special_tokens": False,
            "max_new_tokens": request.max_tokens,
        }
        if request.seed is not None:  # deterministic inference without one gives equal prompts equal responses
            params["sampling_seed"] = request.seed
        # The tokens are read beside their log-probabilities, which every version returns.
        body = {"input_ids": request.prompt, "sampling_params": params, "return_logprob": True}

        def read(answer: Any, name: str) -> Response:
            meta_info = field(answer, "meta_info", dict)
            check_equal("the id of the request that it answers", field(meta_info, "id", str), name)
            check_equal("the length of the prompt", field(meta_info, "prompt_tokens", int), len(request.prompt))
            written = [_token_of(entry) for entry in field(meta_info, "output_token_logprobs", list)]
            tokens = [token for _, token in written]
            if "output_ids" in answer:
                check_equal("the list of tokens beside their log-probabilities", tokens, answer["output_ids"])
            ended_by = field(field(meta_info, "finish_reason", dict), "type", str)
            return check_response(
                Written(tokens, [log_prob for log_prob, _ in written], ended_by), request, sampling, self.rules
            )

        most = MEGABYTE + TOKEN_BYTES * (len(request.prompt) + request.max_tokens)
        return Ask(lambda name: {**body, "rid": name}, read, most)


def _served(answer: Any) -> tuple[str, bool, str | None]:
    """Return the path of the model that it serves, whether that generates, and what its weights are called."""
    version = of_kind(answer, dict, "what it says of its model").get("weight_version")
    version = None if version is None else of_kind(version, str, "weight_version")
    return field(answer, "model_path", str), field(answer, "is_generation", bool), version


def _refusal(answer: Any) -> str | None:
    """Return why it did not take the weights; None if it did."""
    return None if field(answer, "success", bool) else str(answer.get("message"))[:1000]


def _token_of(entry: Any) -> tuple[Any, Any]:
    """Return log-probability and id of a token that was written."""
    if len(of_kind(entry, list, "a token beside its log-probability")) < 2:
        raise BadAnswer("a token has no log-probability beside it")
    return entry[0], entry[1]
