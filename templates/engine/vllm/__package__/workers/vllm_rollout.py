# vextract:template - edit freely
"""The rollout by vLLM, in this same process, with the weights of the policy."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch

from ..data.images import processor_of, without_images
from ..errors import ConfigError
from ..run.distributed import Ranks
from ..shims.device import computing_on, empty_cache, here, to_dtype
from ..switches import LORA, MULTIMODAL, PLACEMENT
from ..training.batches import objects
from ..vendored.protocol import DataProto
from .device_map import device_of
from .rollout_interface import Ended, RolloutError, end_tokens, gives_log_probs, sampling_of
from .servers.adapter_files import hands_over_adapter, lora_options
from .servers.assembly import counted
from .servers.weight_files import with_output_matrix
from .trained_model import TrainedModel
from .vllm_arguments import vllm_arguments
from .vllm_setup import check_vllm, explain_failure, placed_on, prepare_environment, vllm_settings

prepare_environment()
check_vllm()

from .vllm_adapter import WithAdapter  # noqa: E402
from .vllm_base import VllmRollout  # noqa: E402
from .vllm_team import Team  # noqa: E402
from .vllm_writer import VllmWriter  # noqa: E402


class RolloutEngine(VllmRollout):
    """The rollout of vllm_base.py; see `rollout_interface.RolloutEngine` for what the trainer asks of it.

    Weights go over when the next rollout after an update begins. With rollout.free_cache_engine the engine gives its
    memory back after each rollout, and its weights with it.

    Args:
        config: the whole config.
        policy: the model that is trained.
    """

    inference_engine: Any

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel) -> None:
        self.policy = policy
        self.tokenizer = tokenizer
        self.rollout = config.actor_rollout_ref.rollout
        self.ends = end_tokens(tokenizer, policy.module, config.data.get("apply_chat_template_kwargs"))
        # vLLM ends the group of processes with its own: at the end of this process, if there are others.
        self.alone = ranks.world_size == 1
        ranks.leaves_group_open = not self.alone
        self.up_to_date = False
        self.device = device_of(config, "rollout") if PLACEMENT else here()
        settings = vllm_settings(config, ranks, self.device)
        if LORA and (with_adapter := hands_over_adapter(config, policy)):
            settings["load_format"] = "auto"  # the weights that the adapter is trained beside
            settings["engine_kwargs"]["vllm"] = {**lora_options(policy.lora), **settings["engine_kwargs"]["vllm"]}
        if MULTIMODAL and processor_of(tokenizer) is not None:
            settings["load_format"] = "auto"  # what sees holds numbers beside its weights, and dummy makes them random
        self.frees_memory = bool(settings["free_cache_engine"])
        try:
            with placed_on(self.device):
                super().__init__(**vllm_arguments(config, settings, tokenizer))
        except Exception as error:
            raise ConfigError(*explain_failure(error)) from error
        if MULTIMODAL:
            self.image_settings = dict(config.data.get("mm_processor_kwargs") or {})
        if LORA:
            self.adapter: WithAdapter | None = None
            if with_adapter:
                dtype = to_dtype(config.actor_rollout_ref.rollout.dtype)
                self.adapter = self.inference_engine = WithAdapter(self.inference_engine, policy, dtype)
        self.team: Team | None = None
        if settings["tensor_model_parallel_size"] > 1:
            self.team = self.inference_engine = Team(self.inference_engine, settings["tensor_model_parallel_size"])
        policy.given_back = self._given_back
        with computing_on(self.device):
            self._sleep()

    def generate_sequences(self, prompts: DataProto, ended: Ended | None = None, **kwargs: Any) -> DataProto:
        """Write a response to each prompt, within `session`.

        Args:
            prompts: input_ids, attention_mask, position_ids, (bs, prompt_length) int64, padded on the left. `meta_info`
                may have do_sample, validate, response_length, and the settings of sampling.
            ended: is told the responses that have ended while others are still written; not where processes write them
                together.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, padded on the right, on the CPU.
            Maybe also rollout_log_probs, (bs, response_length) float32: see `gives_log_probs`.

        Raises:
            RolloutError: vLLM failed.
        """
        meta_info = {
            "do_sample": self.rollout.do_sample,
            **prompts.meta_info,
            "eos_token_id": [*self.ends],
            "pad_token_id": self.tokenizer.pad_token_id,
        }
        columns = dict(prompts.non_tensor_batch)
        if "raw_prompt_ids" not in columns:
            columns["raw_prompt_ids"] = unpadded(prompts.batch["input_ids"], prompts.batch["attention_mask"])
        asked = self._asked(meta_info)
        asked["max_tokens"] = meta_info.get("response_length", self.config.response_length)
        watching = self._watching(columns["raw_prompt_ids"], ended)
        try:
            with self.update_sampling_params(**asked), watching, computing_on(self.device):
                batch = DataProto(prompts.batch.to(here()), columns, meta_info)
                output: DataProto = super().generate_sequences(batch, **kwargs).to("cpu")
        except RolloutError:
            raise
        except Exception as error:
            raise RolloutError(*explain_failure(error)) from error
        if MULTIMODAL:
            output.non_tensor_batch = without_images(output.non_tensor_batch)
        return output

    def writer(self, meta_info: dict[str, Any]) -> contextlib.AbstractContextManager[VllmWriter] | None:
        """Return what writes turns of episodes, each when it is asked for; None where several processes write them."""
        if self.team is not None:
            return None
        with_log_probs = gives_log_probs(self.config, meta_info)
        params = self.sampling_params.clone()
        for name, value in self._asked(meta_info).items():
            setattr(params, name, value)
        params.logprobs = 0 if with_log_probs else None
        engine = self.inference_engine.llm_engine
        longest = engine.model_config.max_model_len
        adapter = self.adapter.adapter if LORA and self.adapter is not None else None
        writer = VllmWriter(engine, params, self.device, longest, with_log_probs, self.ends, adapter)
        return contextlib.closing(writer)

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Give the engine its memory and the policy's weights within it. Every process must enter and leave it."""
        try:
            with computing_on(self.device):
                if not self.up_to_date:
                    self._wake("weights")
                    self._send_weights()
                    empty_cache()  # of the pieces that were put together; the cache of keys and values comes next
                    self.up_to_date = True
                self._wake("kv_cache")
        except RolloutError:
            raise
        except Exception as error:
            raise RolloutError(*explain_failure(error)) from error
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception), computing_on(self.device):
                self._sleep()  # what has failed may not be able to sleep either
            raise
        with computing_on(self.device):
            self._sleep()

    def _given_back(self) -> int:
        """Return the bytes of the GPU that it has given back, until it wakes."""
        if not self.frees_memory:
            return 0
        from vllm.device_allocator.cumem import CuMemAllocator

        return int(CuMemAllocator.get_instance().get_current_usage())

    def finish(self) -> None:
        """Take part in the responses that processes with other parts of the same model still need."""
        if self.team is not None:
            with computing_on(self.device):
                self.team.finish()

    def sync_weights(self) -> None:
        """Have the policy's weights, which have changed, go over before the next rollout."""
        self.up_to_date = False

    def close(self) -> None:
        """Give back what the engine holds, or with other processes leave that to the end of this one."""
        if LORA and self.adapter is not None:
            self.adapter.close()
        if LORA and self.alone:
            self.adapter = None
        if self.alone:
            self.__dict__.pop("inference_engine", None)

    @torch.no_grad()
    def _send_weights(self) -> None:
        """Hand over the adapter, or all weights, through vLLM's own way of reading a checkpoint."""
        if LORA and self.adapter is not None:
            self.adapter.take_adapter()
            return
        packs_head = self.device.type == "cpu"
        weights = with_output_matrix(self.policy.full_weights(device=None), self.policy.module, packs_head)
        self.inference_engine.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self.inference_engine.reset_prefix_cache()
        if MULTIMODAL:
            self.inference_engine.llm_engine.reset_encoder_cache()  # images as the weights before saw them

    def _asked(self, meta_info: dict[str, Any]) -> dict[str, Any]:
        """Return how vLLM is to draw the tokens of a batch, and at which it is to stop."""
        return {
            **sampling_of(self.rollout, meta_info),
            "stop_token_ids": [] if self.rollout.ignore_eos else [*self.ends],
        }

    @contextlib.contextmanager
    def _watching(self, prompts: Sequence[Any], ended: Ended | None) -> Iterator[None]:
        """Tell of the responses that vLLM finishes within it."""
        if ended is None or self.team is not None:
            yield
            return
        engine = self.inference_engine.llm_engine
        step, replaced = engine.step, vars(engine).get("step")
        tell = _Teller(self.inference_engine, prompts, self.ends, ended)

        def watched() -> Any:
            outputs = step()
            for output in outputs:
                if output.finished:
                    tell(output)
            return outputs

        engine.step = watched
        try:
            yield
        finally:
            del engine.step
            if replaced is not None:
                engine.step = replaced

    def _wake(self, part: str) -> None:
        if self.frees_memory:
            self.inference_engine.wake_up(tags=[part])

    def _sleep(self) -> None:
        self.inference_engine.reset_prefix_cache()
        if not self.frees_memory:
            return
        try:
            # With an adapter the weights below it come back as they are: nobody sends them again.
            self.inference_engine.sleep(level=1 if LORA and self.adapter is not None else 2)
        except Exception as error:
            raise RolloutError(*explain_failure(error)) from error
        self.up_to_date = False


class _Teller:
    """Tells whose response a finished output of vLLM is, by the number of its request."""

    def __init__(self, llm: Any, prompts: Sequence[Any], eos: Collection[int], ended: Ended) -> None:
        self.first = getattr(getattr(llm, "request_counter", None), "counter", None)  # the next request's
        self.prompts = prompts
        self.eos = eos
        self.ended = ended

    def __call__(self, output: Any) -> None:
        number = str(output.request_id).partition("-")[0]
        row = int(number) - self.first if self.first is not None and number.isdigit() else -1
        # A vLLM that counts otherwise: all are scored once they are there.
        if 0 <= row < len(self.prompts) and list(output.prompt_token_ids) == list(self.prompts[row]):
            tokens = list(output.outputs[0].token_ids)
            self.ended(row, tokens[: counted(tokens, self.eos)])


def unpadded(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
    """Return the tokens of each prompt without its padding, as an array of lists.

    Args:
        input_ids, attention_mask: (bs, prompt_length).
    """
    rows = zip(input_ids, attention_mask.bool(), strict=True)
    return objects(ids[mask].tolist() for ids, mask in rows)
