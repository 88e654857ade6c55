# vextract:template - edit freely
"""The rollout by a server: the engine that the trainer sees."""

import contextlib
import shutil
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

import torch

from ...errors import ConfigError
from ...run.distributed import Ranks
from ...run.seeds import draw_seeds
from ...shims.device import to_dtype
from ...switches import LORA, OVERLAP
from ...vendored.protocol import DataProto
from ...vendored.utils.device import get_device_name
from ..rollout_interface import Ended, RolloutError, end_tokens, gives_log_probs, sampling_of
from ..trained_model import TrainedModel
from .adapter_files import AdapterFiles, hands_over_adapter
from .arguments import on_gpu, own_gpus, seen_by
from .assembly import assemble, counted
from .http import Connection
from .interface import AdapterServer, Request, Response, Rules, Sampling, Server
from .process import ServerProcess
from .weight_files import bytes_of, make_directory, with_output_matrix
from .writer import ServerWriter

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServerEngine:
    """A `RolloutEngine` that asks a server for responses.

    The first process starts the server, unless local.server.url names one, and hands it the policy's weights; every
    process sends it the prompts of its own share.

    Args:
        config: the whole config.
        policy: the model that is trained.
        kind: of server.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel, kind: type[Server]) -> None:
        rollout = config.actor_rollout_ref.rollout
        self.config = config
        self.rollout = rollout
        self.settings = config.local.server
        self.tokenizer = tokenizer
        self.ends = end_tokens(tokenizer, policy.module, config.data.get("apply_chat_template_kwargs"))
        self.ranks = ranks
        self.policy = policy
        self.max_model_len = rollout.max_model_len or rollout.prompt_length + rollout.response_length
        self.process: ServerProcess | None = None
        self.connection: Connection | None = None
        self.directory: Path | None = None
        if LORA:
            # What hands over the adapter alone; None: whole weights go over.
            self.adapter_files: AdapterFiles | None = None
            takes_one = hasattr(kind, AdapterServer.take_adapter.__name__)
            self.with_adapter = takes_one and hands_over_adapter(config, policy)
        self.asleep: set[str] = set()
        _check_settings(config, ranks)
        try:
            ranks.on_driver(self._make_directory)
            machines = ranks.gather_objects(socket.gethostname())
            trainers = range(machines.count(machines[0]) if on_gpu() else 0)
            own = ranks.on_driver(lambda: own_gpus(config))
            self.shares_gpus = own is None or not set(trainers).isdisjoint(own)
            self.sleeps = self._sleeps()
            if OVERLAP and config.local.rollout.ahead and self.sleeps:
                raise ConfigError(
                    "local.rollout.ahead=1 has the server write during the update, and the two share GPUs in turn",
                    "give it GPUs of its own, local.server.devices=[cuda:1]; or, if both fit, local.server.sleep=false",
                )
            url = self.settings.url or ranks.on_driver(lambda: self._start(kind, len(own or trainers), own))
            self.connection = self._connect(url)
            self.server = kind(self.connection, config, self._rules())
            ranks.together(lambda: self.server.check(policy.module.config, self.max_model_len))
            self.sync_weights()
        except BaseException:
            self.close()
            raise

    def generate_sequences(self, prompts: DataProto, ended: Ended | None = None) -> DataProto:
        """Write a response to each prompt; see `RolloutEngine`.

        With rollout.calculate_log_probs the output has rollout_log_probs, (bs, response_length) float32, -1 after the
        end of a response.
        """
        meta_info, rollout = prompts.meta_info, self.rollout
        if "multi_modal_data" in prompts.non_tensor_batch:
            raise ConfigError("the rollout server takes text only", "drop the images from the data")
        response_length = int(meta_info.get("response_length", rollout.response_length))
        sampling = self._sampling(meta_info, response_length)
        lengths = prompts.batch["attention_mask"].sum(dim=-1).tolist()
        padded = prompts.batch["input_ids"].tolist()
        rows = [row[len(row) - length :] for row, length in zip(padded, lengths, strict=True)]
        seeds: list[int | None] = [None] * len(rows)
        if sampling.temperature > 0:
            seeds = list(draw_seeds(len(rows)))
        requests = [
            Request(row, self._room(len(row), response_length), seed) for row, seed in zip(rows, seeds, strict=True)
        ]

        def tell(row: int, response: Response) -> None:
            if ended is not None:
                ended(row, response.tokens[: counted(response.tokens, self.ends)])

        responses = self.server.generate(requests, sampling, tell)
        self._check_weights()
        return self._assemble(prompts, responses, response_length)

    @contextlib.contextmanager
    def writer(self, meta_info: dict[str, Any]) -> Iterator[ServerWriter]:
        """Write turns of episodes, each when it is asked for, within it."""
        sampling = self._sampling(meta_info, int(meta_info.get("response_length", self.rollout.response_length)))
        assert self.connection is not None
        yield ServerWriter(self.server, self.connection, sampling, self._room, self.ends)
        self._check_weights()

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Give the server its GPU memory within it. Every process must enter and leave it."""
        if not self.sleeps:
            yield
            return
        self.ranks.on_driver(lambda: self._wake("weights", "kv_cache"))
        yield
        if self.ranks.rank == 0:
            self.server.sleep()
            self.asleep = {"weights", "kv_cache"}

    def finish(self) -> None:
        """Do nothing: no other process needs this one for its responses."""

    @torch.no_grad()
    def sync_weights(self) -> None:
        """Hand the policy's weights to the server. Every process must call this; it returns when they are in use."""
        weights = self.policy.adapter_weights() if LORA and self.with_adapter else self.policy.full_weights()
        version = uuid.uuid4().hex
        error: Exception | None = None
        if self.ranks.rank == 0:
            try:
                self._wake("weights")
                self._hand_over(weights, version)
            except Exception as caught:
                error = caught
                try:
                    self._check()
                except RolloutError as ended:  # that the server has ended is the reason, whatever it showed in
                    error = ended
        for _ in weights:  # every process takes part in gathering each
            pass
        self.version = self.ranks.on_driver(lambda: version if error is None else _raise(error))

    def _hand_over(self, weights: Iterator[tuple[str, torch.Tensor]], version: str) -> None:
        assert self.directory is not None
        if LORA and self.with_adapter:
            if self.adapter_files is None:
                self.adapter_files = AdapterFiles(self.directory, self.policy.lora, to_dtype(self.rollout.dtype))
            path, _ = self.adapter_files.write(weights)
            cast(AdapterServer, self.server).take_adapter(str(path), version)
            self.adapter_files.keep_last()
            return
        needs_output_matrix = get_device_name() == "cpu"
        complete = with_output_matrix(weights, self.policy.module, needs_output_matrix)
        self.server.update(complete, str(self.directory), version)

    def close(self) -> None:
        """Stop the server, if this process started it. May be called more than once."""
        if self.connection is not None:
            self.connection.close()
        if self.process is not None:
            self.process.stop()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
        self.connection = self.process = self.directory = None

    def _start(self, kind: type[Server], gpus: int, own: list[int] | None) -> str:
        """Start the server on so many GPUs, its own or those of this machine's processes. Returns its URL.

        Only the first process does it.
        """
        assert self.directory is not None
        run_directory = Path(self.config.trainer.default_local_dir)
        adapter = self.policy.lora if LORA and self.with_adapter else None
        self.process = ServerProcess(
            f"the {kind.name} server",
            lambda port: kind.command(self.config, port, self.max_model_len, gpus, adapter),
            {**kind.environment(), **({} if own is None else {"CUDA_VISIBLE_DEVICES": seen_by(own)})},
            host=self.settings.host,
            port=self.settings.port,
            log=run_directory / "server.log",
            scratch=self.directory,
        )
        with contextlib.closing(self._connect(self.process.url)) as connection:

            def healthy(url: str) -> bool:
                connection.url = url
                return kind.healthy(connection)

            self.process.wait(healthy, self.settings.startup_timeout)
        return self.process.url

    def _connect(self, url: str) -> Connection:
        settings = self.settings
        return Connection(url, concurrency=settings.concurrency, timeout=settings.request_timeout, check=self._check)

    def _make_directory(self) -> None:
        needed = bytes_of(self.policy.module, to_dtype(self.rollout.dtype))
        run_directory = Path(self.config.trainer.default_local_dir)
        self.directory = make_directory(self.settings.weights_directory, run_directory, needed)

    def _check_weights(self) -> None:
        """Raise RolloutError if what was just written may come from other weights than the policy's."""
        version = self.server.weights_version()
        if version is not None and version != self.version:
            raise RolloutError(
                f"the server at {self.connection.url if self.connection else ''} has other weights than it was given: "
                f"{version[:100]} instead of {self.version}",
                "it was started again, or another run uses it; this run's next start hands over its weights",
            )

    def _check(self) -> None:
        if self.process is not None:
            self.process.check()

    def _sleeps(self) -> bool:
        """Tell whether the server gives back its memory between rollouts: if it shares a GPU with the trainer."""
        if self.settings.sleep is not None:
            return bool(self.settings.sleep)
        shares = self.shares_gpus and not self.settings.url and get_device_name() != "cpu"
        return shares and bool(self.rollout.free_cache_engine)

    def _wake(self, *parts: str) -> None:
        for part in parts:
            if part in self.asleep:
                self.server.wake(part)
                self.asleep.remove(part)

    def _sampling(self, meta_info: dict[str, Any], max_tokens: int) -> Sampling:
        """Return what a batch of responses asks of the server."""
        rollout = self.rollout
        values: Any = sampling_of(rollout, meta_info)
        return Sampling(
            **values,
            max_tokens=max_tokens,
            stop_token_ids=() if rollout.ignore_eos else self.ends,
            ignore_eos=bool(rollout.ignore_eos),
            log_probs=gives_log_probs(rollout, meta_info),
        )

    def _rules(self) -> Rules:
        """Return what every response must keep to."""
        config: Any = self.policy.module.config
        return Rules(int(config.get_text_config().vocab_size), frozenset(self.ends))

    def _room(self, prompt_length: int, response_length: int) -> int:
        """Return how many tokens the server may write after a prompt of this length."""
        room = min(response_length, self.max_model_len - prompt_length)
        if room < 1:
            raise ConfigError(
                f"a prompt of {prompt_length} tokens leaves no room for a response in {self.max_model_len}",
                "raise actor_rollout_ref.rollout.max_model_len, or shorten the prompts",
            )
        return room

    def _assemble(self, prompts: DataProto, responses: list[Response], response_length: int) -> DataProto:
        pad, with_log_probs = self.tokenizer.pad_token_id, gives_log_probs(self.rollout, prompts.meta_info)
        return assemble(prompts, responses, response_length, pad, self.ends, with_log_probs)


def _raise(error: Exception) -> NoReturn:
    raise error


def _check_settings(config: Any, ranks: Ranks) -> None:
    """Refuse settings that cannot work together."""
    settings = config.local.server
    if settings.url and not settings.url.startswith(("http://", "https://")):
        raise ConfigError(f"local.server.url is {settings.url!r}", "write it as http://HOST:PORT")
    hosts = sorted(set(ranks.gather_objects(socket.gethostname())))
    if len(hosts) > 1 and not settings.url and settings.host in LOOPBACK:
        raise ConfigError(
            f"the processes are on {len(hosts)} machines, and those on others than the first cannot reach a server at "
            f"{settings.host}",
            "set local.server.host to an address of the first machine, or local.server.url",
        )
    if settings.concurrency < 1:
        raise ConfigError("local.server.concurrency is less than 1", "leave it out for the default")
