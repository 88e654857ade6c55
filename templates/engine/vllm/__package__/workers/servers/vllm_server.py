# vextract:template - edit freely
"""vLLM's OpenAI-compatible server, with the endpoints of its development mode for the weights."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ...shims.precision import to_dtype
from ...training.config_loading import ConfigError
from ..rollout_interface import RolloutError
from .arguments import extra_arguments, flags, interpreter, model_overrides, on_gpu
from .http import Connection
from .interface import Request, Response, Sampling
from .vllm_weights import MODEL_SETTINGS
from .weight_files import MEGABYTE, buckets

PROJECT = Path(__file__).resolve().parents[3]
# The class that vLLM's workers get as a base class, so that they can take weights.
RECEIVER = f"{__package__}.vllm_weights.WeightReceiver"
CPU_CACHE_BYTES = 2**28


class VllmServer:
    """vLLM behind HTTP (0.16 or newer).

    Args:
        connection: to the server.
        config: the whole config.
    """

    name = "vLLM"

    def __init__(self, connection: Connection, config: Any) -> None:
        self.connection = connection
        self.config = config
        self.dtype = to_dtype(config.actor_rollout_ref.rollout.dtype)
        self.sends_seeds = bool(config.local.server.repeatable)
        self.bucket_bytes = config.local.server.bucket_megabytes * MEGABYTE

    @staticmethod
    def command(config: Any, port: int, max_model_len: int) -> list[str]:
        """The command line that starts one."""
        rollout, model, server = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model, config.local.server
        settings = {
            "model": model.path,
            "host": server.host,
            "port": port,
            "worker_extension_cls": RECEIVER,
            "dtype": str(to_dtype(rollout.dtype)).removeprefix("torch."),
            "load_format": rollout.load_format,
            "seed": config.local.seed,
            "trust_remote_code": model.trust_remote_code,
            "hf_overrides": model_overrides(config) or None,
            "generation_config": "vllm",  # what each request says, and nothing else
            "logprobs_mode": "processed_logprobs",  # at the temperature that is sampled at, as the actor's are
            "tensor_parallel_size": rollout.tensor_model_parallel_size,
            "max_model_len": max_model_len,
            "max_num_seqs": rollout.max_num_seqs,
            "max_num_batched_tokens": max(rollout.max_num_batched_tokens, max_model_len),
            "enable_chunked_prefill": rollout.enable_chunked_prefill,
            "no_enable_chunked_prefill": not rollout.enable_chunked_prefill,
            "enable_prefix_caching": rollout.enable_prefix_caching,
            "no_enable_prefix_caching": not rollout.enable_prefix_caching,
            "enforce_eager": rollout.enforce_eager or not on_gpu(),
            "disable_log_stats": rollout.disable_log_stats,
            "disable_uvicorn_access_log": True,
        }
        if on_gpu():
            settings["gpu_memory_utilization"] = rollout.gpu_memory_utilization
            settings["enable_sleep_mode"] = bool(rollout.free_cache_engine)
        else:
            settings["kv_cache_memory_bytes"] = CPU_CACHE_BYTES
        module = ["-m", "vllm.entrypoints.openai.api_server"]
        return [interpreter(config), *module, *flags(settings), *extra_arguments(config, "vllm")]

    @staticmethod
    def environment() -> Mapping[str, str]:
        """The development mode has the endpoints for weights; the path is that of this project, for the receiver."""
        path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": path, "VLLM_NO_USAGE_STATS": "1"}
        return variables if on_gpu() else {**variables, "TORCHDYNAMO_DISABLE": "1"}

    @staticmethod
    def healthy(connection: Connection) -> bool:
        """Whether it answers, and can generate."""
        return connection.answers("/health")

    def check(self, model_config: Any, max_model_len: int) -> None:
        """Raise ConfigError if it serves another model, or if its weights cannot be replaced."""
        hint = "start vLLM there, or leave local.server.url out: the trainer then starts one"
        try:
            served = self.connection.get("/v1/models")["data"][0]
        except RolloutError as error:
            raise ConfigError(f"no vLLM server answers: {error.parts[0]}", hint) from error
        except (KeyError, IndexError, TypeError) as error:
            raise ConfigError(f"what answers at {self.connection.url} is not a vLLM server", hint) from error
        self.served_name = served["id"]
        if (served.get("max_model_len") or max_model_len) < max_model_len:
            raise ConfigError(
                f"the server at {self.connection.url} takes {served['max_model_len']} tokens, and prompt and response "
                f"may have {max_model_len} together",
                f"start it with --max-model-len {max_model_len}",
            )
        try:
            theirs = self._rpc("describe_model")[0]
        except RolloutError as error:
            raise ConfigError(
                f"the weights of the server at {self.connection.url} cannot be replaced: {error.parts[0]}",
                f"start it with VLLM_SERVER_DEV_MODE=1 PYTHONPATH={PROJECT} and --worker-extension-cls {RECEIVER}",
            ) from error
        ours = {name: getattr(model_config, name, None) for name in MODEL_SETTINGS}
        for name in MODEL_SETTINGS:
            if theirs.get(name) != ours[name]:
                raise ConfigError(
                    f"the server at {self.connection.url} serves another model, {self.served_name}: its {name} is "
                    f"{theirs.get(name)}, the policy's is {ours[name]}",
                    f"start it with --model {self.config.actor_rollout_ref.model.path}",
                )

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Response]:
        """The responses, in the order of the requests."""
        common: dict[str, Any] = {
            "model": self.served_name,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "ignore_eos": sampling.ignore_eos,
            "stop_token_ids": list(sampling.stop_token_ids),
            "return_token_ids": True,
        }
        if sampling.log_probs:
            common["logprobs"] = 0  # of the token that was written, and of no others
        groups: dict[tuple[object, ...], list[int]] = {}
        for row, request in enumerate(requests):
            groups.setdefault((request.max_tokens, *request.prompt), []).append(row)
        bodies = [self._body(common, requests[rows[0]], len(rows)) for rows in groups.values()]
        responses: list[Response | None] = [None] * len(requests)
        for rows, answer in zip(groups.values(), self.connection.post_all("/v1/completions", bodies), strict=True):
            written = [_response(choice) for choice in sorted(answer["choices"], key=lambda choice: choice["index"])]
            for number, row in enumerate(rows):
                responses[row] = written[number % len(written)]  # greedy: one for all
        return [response for response in responses if response is not None]

    def update(self, weights: Iterable[tuple[str, torch.Tensor]], directory: str) -> None:
        """Replace its weights, a bucket at a time, each through a file in `directory`."""
        self.connection.post("/pause?mode=wait")
        self._rpc("start_weights")
        for index, bucket in enumerate(buckets(weights, self.bucket_bytes, self.dtype)):
            path = Path(directory) / f"bucket-{index}.safetensors"
            try:
                save_file(bucket, path)
                self._rpc("load_weights_file", str(path))
            finally:
                path.unlink(missing_ok=True)
        self._rpc("finish_weights")
        self.connection.post("/resume")
        answer = self.connection.post("/reset_prefix_cache")
        if isinstance(answer, dict) and not answer.get("success", True):
            raise RolloutError(
                "the server would go on with what it had cached of the old weights", "is somebody else using it?"
            )

    def sleep(self) -> None:
        """Let it give back GPU memory; it keeps its weights in CPU memory."""
        self.connection.post("/sleep?level=1")

    def wake(self, part: str) -> None:
        """Let it take back GPU memory, for "weights" or for the "kv_cache"."""
        self.connection.post(f"/wake_up?tags={part}")

    def _body(self, common: dict[str, Any], request: Request, count: int) -> dict[str, Any]:
        """One request for `count` responses to the same prompt; from a seed vLLM makes one for each."""
        body = {**common, "prompt": request.prompt, "max_tokens": request.max_tokens}
        if common["temperature"] > 0:
            body["n"] = count
        if request.seed is not None and self.sends_seeds:
            body["seed"] = request.seed
        return body

    def _rpc(self, method: str, *arguments: str) -> list[dict[str, Any]]:
        """Call a method of the receiver in every worker."""
        answer = self.connection.post("/collective_rpc", {"method": method, "args": list(arguments)})
        results: list[dict[str, Any]] = answer["results"]
        for result in results:
            if "error" in result:
                raise RolloutError(f"vLLM's worker could not {method}: {result['error']}", "its log says more")
        return results


def _response(choice: dict[str, Any]) -> Response:
    log_probs = choice["logprobs"]["token_logprobs"] if choice.get("logprobs") else None
    return Response(choice["token_ids"], log_probs)
