# vextract:template - edit freely
"""vLLM's OpenAI-compatible server, with the endpoints of its development mode for the weights."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ...errors import ConfigError
from ...shims.device import to_dtype
from ..rollout_interface import RolloutError
from .adapter_files import lora_options, refused
from .answers import BadAnswer, check_equal, field, in_order, of_kind
from .arguments import copies_on, extra_arguments, flags, interpreter, model_overrides, on_gpu
from .http import MEGABYTE, Ask, Connection
from .interface import Request, Response, Rules, Sampling
from .responses import Written, check_response
from .vllm_weights import MODEL_SETTINGS
from .weight_files import buckets

PROJECT = Path(__file__).resolve().parents[3]
# The class that vLLM's workers get as a base class, so that they can take weights.
RECEIVER = f"{__package__}.vllm_weights.WeightReceiver"
CPU_CACHE_BYTES = 2**28
CHECK_SECONDS = 120.0  # a busy worker answers between two of its steps
# What an answer may have for each token of prompt and responses: its id, its text, its log-probability.
TOKEN_BYTES = 1024


class VllmServer:
    """vLLM behind HTTP (0.16 or newer).

    Args:
        connection: to the server.
        config: the whole config.
        rules: what every response must keep to.
    """

    name = "vLLM"

    def __init__(self, connection: Connection, config: Any, rules: Rules) -> None:
        self.connection = connection
        self.config = config
        self.rules = rules
        self.dtype = to_dtype(config.actor_rollout_ref.rollout.dtype)
        self.sends_seeds = bool(config.local.server.repeatable)
        self.bucket_bytes = config.local.server.bucket_megabytes * MEGABYTE
        self.adapter: str | None = None

    @staticmethod
    def command(config: Any, port: int, max_model_len: int, gpus: int, adapter: Any = None) -> list[str]:
        """Return the command line that starts one, on so many GPUs; 0: on the CPU."""
        rollout, model, server = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model, config.local.server
        settings = {
            "model": model.path,
            "host": server.host,
            "port": port,
            "worker_extension_cls": RECEIVER,
            "dtype": str(to_dtype(rollout.dtype)).removeprefix("torch."),
            "load_format": rollout.load_format if adapter is None else "auto",
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
        if adapter is not None:
            settings.update(lora_options(adapter))
        if on_gpu():
            settings["data_parallel_size"] = copies_on(gpus, config, "--data-parallel-size")
            settings["gpu_memory_utilization"] = rollout.gpu_memory_utilization
            settings["enable_sleep_mode"] = bool(rollout.free_cache_engine)
        else:
            settings["kv_cache_memory_bytes"] = CPU_CACHE_BYTES
        module = ["-m", "vllm.entrypoints.openai.api_server"]
        return [interpreter(config), *module, *flags(settings), *extra_arguments(config, "vllm")]

    @staticmethod
    def environment() -> Mapping[str, str]:
        """Return the variables: the development mode, with endpoints for weights, and this project's path."""
        path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": path, "VLLM_NO_USAGE_STATS": "1"}
        variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
        return variables if on_gpu() else {**variables, "TORCHDYNAMO_DISABLE": "1"}

    @staticmethod
    def healthy(connection: Connection) -> bool:
        """Tell whether it answers, and can generate."""
        return connection.answers("/health")

    def check(self, model_config: Any, max_model_len: int) -> None:
        """Raise ConfigError if it serves another model, or if its weights cannot be replaced."""
        hint = "start vLLM there, or leave local.server.url out: the trainer then starts one"
        try:
            self.served_name, room = self.connection.get("/v1/models", _served, CHECK_SECONDS)
        except RolloutError as error:
            raise ConfigError(f"no vLLM server answers: {error.message}", hint) from error
        if (room or max_model_len) < max_model_len:
            raise ConfigError(
                f"the server at {self.connection.url} takes {room} tokens, and prompt and response "
                f"may have {max_model_len} together",
                f"start it with --max-model-len {max_model_len}",
            )
        try:
            theirs = self._tell_of("describe_model")[0]
            self.weights_version()
        except RolloutError as error:
            raise ConfigError(
                f"the weights of the server at {self.connection.url} cannot be replaced: {error.message}",
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

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, ended: Callable[[int, Response], None] | None = None
    ) -> list[Response]:
        """Return the responses, in the order of the requests; `ended` is told each as it comes."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for row, request in enumerate(requests):
            groups.setdefault((request.max_tokens, *request.prompt), []).append(row)
        rows_of = list(groups.values())
        asks = [self._ask(requests[rows[0]], len(rows), sampling) for rows in rows_of]
        responses: dict[int, Response] = {}

        def take(place: int, written: list[Response]) -> None:
            rows = rows_of[place]
            # A greedy request has one response, which is that of all its rows.
            responses.update(zip(rows, written if len(written) > 1 else written * len(rows), strict=True))
            for row in rows if ended is not None else ():
                ended(row, responses[row])  # type: ignore[misc]

        self.connection.post_all("/v1/completions", asks, take)
        return [responses[row] for row in range(len(requests))]

    async def write(self, request: Request, sampling: Sampling) -> Response:
        """Return one response."""
        (response,) = await self.connection.answer("/v1/completions", self._ask(request, 1, sampling))
        return response

    def update(self, weights: Iterable[tuple[str, torch.Tensor]], directory: str, version: str) -> None:
        """Replace its weights, a bucket at a time, each through a file in `directory`."""
        self.connection.tell("/pause?mode=wait")
        self._do("start_weights")
        for index, bucket in enumerate(buckets(weights, self.bucket_bytes, self.dtype)):
            path = Path(directory) / f"bucket-{index}.safetensors"
            try:
                save_file(bucket, path)
                self._do("load_weights_file", str(path))
            finally:
                path.unlink(missing_ok=True)
        self._do("finish_weights", version)
        self.connection.tell("/resume")
        self.connection.post("/reset_prefix_cache", None, _cache_is_reset)

    def take_adapter(self, directory: str, version: str) -> None:
        """Write all responses with the adapter in this directory from now on, beside the weights that it has read."""
        started_with = {str(part.get("version")) for part in self._tell_of("describe_weights")}
        if started_with != {"none"}:
            raise RolloutError(
                f"the server at {self.connection.url} has other weights than those of its model's files: another run "
                "has replaced them",
                "start it again; the adapter is trained beside the weights in the files",
            )
        self.connection.tell("/pause?mode=wait")
        try:
            self.connection.tell("/v1/load_lora_adapter", {"lora_name": version, "lora_path": directory})
            if self.adapter is not None:
                self.connection.tell("/v1/unload_lora_adapter", {"lora_name": self.adapter})
        except RolloutError as error:
            raise refused(error.message) from error
        finally:
            self.connection.tell("/resume")
        self.adapter = version

    def weights_version(self) -> str:
        """Return the `version` of the last update that all its workers have taken as a whole."""
        if self.adapter is not None:
            there = self.connection.get("/v1/models", _served_names, CHECK_SECONDS)
            return self.adapter if self.adapter in there else "none"
        versions = {str(part.get("version")) for part in self._tell_of("describe_weights")}
        return ", ".join(sorted(versions))

    def sleep(self) -> None:
        """Let it give back GPU memory; it keeps its weights in CPU memory."""
        self.connection.tell("/sleep?level=1")

    def wake(self, part: str) -> None:
        """Let it take back GPU memory, for "weights" or for the "kv_cache"."""
        self.connection.tell(f"/wake_up?tags={part}")

    def _ask(self, request: Request, count: int, sampling: Sampling) -> Ask[list[Response]]:
        """Return one request for `count` responses to the same prompt; from a seed vLLM makes one for each."""
        body: dict[str, Any] = {
            "model": self.adapter or self.served_name,
            "prompt": request.prompt,
            "max_tokens": request.max_tokens,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "ignore_eos": sampling.ignore_eos,
            "stop_token_ids": list(sampling.stop_token_ids),
            "return_token_ids": True,
        }
        if sampling.log_probs:
            body["logprobs"] = 0  # of the token that was written, and of no others
            body["return_tokens_as_token_ids"] = True
        expected = 1
        if sampling.temperature > 0:
            body["n"] = expected = count
        if request.seed is not None and self.sends_seeds:
            body["seed"] = request.seed

        def read(answer: Any, name: str) -> list[Response]:
            if name not in field(answer, "id", str):
                raise BadAnswer(f"its id is {answer['id'][:100]}, which is that of another request than {name}")
            check_equal("its model", field(answer, "model", str), body["model"])
            choices = in_order(field(answer, "choices", list), expected)
            return [self._response(choice, request, sampling) for choice in choices]

        most = MEGABYTE + TOKEN_BYTES * expected * (len(request.prompt) + request.max_tokens)
        return Ask(lambda _: body, read, most)

    def _response(self, choice: Any, request: Request, sampling: Sampling) -> Response:
        tokens = field(choice, "token_ids", list)
        check_equal("the prompt that it says it answers", field(choice, "prompt_token_ids", list), request.prompt)
        log_probs = None
        if sampling.log_probs:
            told = field(choice, "logprobs", dict)
            log_probs = field(told, "token_logprobs", list)
            check_equal(
                "the list of tokens whose log-probabilities it has",
                field(told, "tokens", list),
                [f"token_id:{token}" for token in tokens],
            )
        return check_response(Written(tokens, log_probs, choice.get("finish_reason")), request, sampling, self.rules)

    def _tell_of(self, method: str) -> list[dict[str, Any]]:
        """Return what each worker returns from a method of the receiver that changes nothing."""
        ask = Ask(lambda _: {"method": method, "args": []}, lambda answer, _: _results(answer))
        return self.connection.ask("/collective_rpc", ask, CHECK_SECONDS)

    def _do(self, method: str, *arguments: str) -> None:
        """Call a method of the receiver in every worker."""
        for result in self.connection.post("/collective_rpc", {"method": method, "args": list(arguments)}, _results):
            if result.get("done") is not True:
                reason = str(result.get("error", "it does not say why"))[:1000]
                raise RolloutError(
                    f"a worker of vLLM at {self.connection.url} could not {method}: {reason}", "its log says more"
                )


def _served(answer: Any) -> tuple[str, int | None]:
    """Return the name of the model that it serves, and the tokens that prompt and response may have."""
    models = field(answer, "data", list)
    if not models:
        raise BadAnswer("it serves no model")
    room = of_kind(models[0], dict, "a model").get("max_model_len")
    return field(models[0], "id", str), None if room is None else of_kind(room, int, "max_model_len")


def _served_names(answer: Any) -> list[str]:
    """Return the names of the model that it serves, and of the adapters beside it."""
    return [field(of_kind(model, dict, "a model"), "id", str) for model in field(answer, "data", list)]


def _results(answer: Any) -> list[dict[str, Any]]:
    """Return what each worker has returned."""
    results = field(answer, "results", list)
    if not results:
        raise BadAnswer("no worker has answered")
    return [of_kind(result, dict, "what a worker returned") for result in results]


def _cache_is_reset(answer: Any) -> None:
    if isinstance(answer, dict) and answer.get("success", True) is not True:  # older ones answer with nothing
        raise BadAnswer("it would go on with what it has cached of the old weights; is somebody else using it?")
