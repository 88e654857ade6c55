# vextract:template - edit freely
"""SGLang's server, by its native API: /generate, /update_weights_from_disk and the memory saver.

Written after SGLang's documentation (Native APIs, Sampling Parameters, SGLang for RL Systems).
"""

import shutil
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
from .weight_files import MEGABYTE, buckets


class SglangServer:
    """SGLang behind HTTP (0.5.3 or newer).

    Args:
        connection: to the server.
        config: the whole config.
    """

    name = "SGLang"

    def __init__(self, connection: Connection, config: Any) -> None:
        self.connection = connection
        self.config = config
        self.dtype = to_dtype(config.actor_rollout_ref.rollout.dtype)
        self.bucket_bytes = config.local.server.bucket_megabytes * MEGABYTE
        self.model_name = Path(config.actor_rollout_ref.model.path).name

    @staticmethod
    def command(config: Any, port: int, max_model_len: int) -> list[str]:
        """The command line that starts one."""
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
            settings["mem_fraction_static"] = rollout.gpu_memory_utilization
            settings["enable_memory_saver"] = bool(rollout.free_cache_engine)
        else:
            settings["device"] = "cpu"
        module = ["-m", "sglang.launch_server"]
        return [interpreter(config), *module, *flags(settings), *extra_arguments(config, "sglang")]

    @staticmethod
    def environment() -> Mapping[str, str]:
        """Variables to set for it: none."""
        return {}

    @staticmethod
    def healthy(connection: Connection) -> bool:
        """Whether it answers, and can generate."""
        return connection.answers("/health_generate")

    def check(self, model_config: Any, max_model_len: int) -> None:
        """Raise ConfigError if it serves another model. That its weights can be replaced shows when they are."""
        url = self.connection.url
        hint = "start SGLang there, or leave local.server.url out: the trainer then starts one"
        try:
            served = self.connection.get("/get_model_info")
            name, generates = Path(served["model_path"]).name, served["is_generation"]
        except RolloutError as error:
            raise ConfigError(f"no SGLang server answers: {error.parts[0]}", hint) from error
        except (KeyError, TypeError) as error:
            raise ConfigError(f"what answers at {url} is not an SGLang server", hint) from error
        if not generates or name != self.model_name:
            raise ConfigError(
                f"the server at {url} serves another model, {served['model_path']}",
                f"start it with --model-path {self.config.actor_rollout_ref.model.path}",
            )

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Response]:
        """The responses, in the order of the requests."""
        common = {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": 0.0,
            "ignore_eos": sampling.ignore_eos,
            "stop_token_ids": list(sampling.stop_token_ids),
            "skip_special_tokens": False,
        }
        bodies = []
        for request in requests:
            params: dict[str, Any] = {**common, "max_new_tokens": request.max_tokens}
            if request.seed is not None:  # deterministic inference without one gives equal prompts equal responses
                params["sampling_seed"] = request.seed
            # The tokens are read beside their log-probabilities, which every version returns.
            bodies.append({"input_ids": request.prompt, "sampling_params": params, "return_logprob": True})
        return [self._response(answer, sampling.log_probs) for answer in self.connection.post_all("/generate", bodies)]

    def update(self, weights: Iterable[tuple[str, torch.Tensor]], directory: str) -> None:
        """Replace its weights by a checkpoint in `directory`, which is gone again afterwards.

        SGLang calls its model by the path of its weights from then on, so this has the model's own name at its end.
        """
        checkpoint = Path(directory) / self.model_name
        checkpoint.mkdir()
        try:
            for index, bucket in enumerate(buckets(weights, self.bucket_bytes, self.dtype)):
                save_file(bucket, checkpoint / f"model-{index:05d}.safetensors", metadata={"format": "pt"})
            body = {"model_path": str(checkpoint), "load_format": "auto"}
            answer = self.connection.post("/update_weights_from_disk", body)
        finally:
            shutil.rmtree(checkpoint)
        if not answer["success"]:
            raise RolloutError(
                f"SGLang did not take the weights: {answer['message']}",
                "does it serve the same model, and can it read local.server.weights_directory?",
            )
        self.connection.post("/flush_cache")

    def sleep(self) -> None:
        """Let it give back the memory of its cache. It keeps its weights, which would be lost with their memory."""
        self.connection.post("/release_memory_occupation", {"tags": ["kv_cache"]})

    def wake(self, part: str) -> None:
        """Let it take back GPU memory, for "weights" or for the "kv_cache"."""
        if part == "kv_cache":
            self.connection.post("/resume_memory_occupation", {"tags": [part]})

    def _response(self, answer: dict[str, Any], log_probs: bool) -> Response:
        meta_info = answer["meta_info"]
        reason = meta_info.get("finish_reason") or {}
        if reason.get("type") == "abort":
            raise RolloutError(f"SGLang gave up a request: {reason.get('message')}", "the server's log says more")
        written = meta_info["output_token_logprobs"]
        return Response([entry[1] for entry in written], [entry[0] for entry in written] if log_probs else None)
