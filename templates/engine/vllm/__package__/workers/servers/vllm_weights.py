# vextract:template - edit freely
"""What vLLM's workers need to take weights from the trainer. The server's process imports this file, and little else.

vLLM mixes the class into its worker (`--worker-extension-cls`) and calls its methods for POST /collective_rpc.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

# What two models have in common if one can take the other's weights.
MODEL_SETTINGS = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "tie_word_embeddings",
)


def _answering(method: Callable[..., None]) -> Callable[..., dict[str, Any]]:
    """Return the method, with its outcome as something that goes over HTTP.

    Of what several copies of the model (data parallelism) return, vLLM passes on what the first does; of what they
    raise, anything. So another copy raises what went wrong in any of its workers.
    """

    @wraps(method)
    def answer(receiver: "WeightReceiver", *arguments: Any) -> dict[str, Any]:
        error = None
        try:
            method(receiver, *arguments)
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
        parallel = receiver.vllm_config.parallel_config
        if parallel.data_parallel_index > 0:
            error = _error_of_any(error, parallel.world_size)
            # vLLM reads the last worker's answer last: after another's exception it would leave answers unread, and
            # take each of them for that to a later call.
            if error is not None and receiver.rank == parallel.world_size - 1:
                raise RuntimeError(f"copy {parallel.data_parallel_index} of the model: {error}")
        return {"done": True} if error is None else {"error": error}

    return answer


def _error_of_any(error: str | None, workers: int) -> str | None:
    """Return what went wrong in this worker of a copy, or else in another."""
    if workers == 1:
        return error
    import torch.distributed
    from vllm.distributed.parallel_state import get_world_group

    group = get_world_group()
    errors: list[str | None] = [None] * group.world_size
    torch.distributed.all_gather_object(errors, error, group=group.cpu_group)
    return next((each for each in [error, *errors] if each is not None), None)


class WeightReceiver:
    """Takes weights in the order start_weights, load_weights_file (any number of times), finish_weights.

    vLLM repacks weights when it loads them. Its layerwise reload undoes and repeats that, and keeps the addresses that
    CUDA graphs have captured; plain loading would write over packed weights.
    """

    model_runner: Any
    vllm_config: Any
    rank: int
    weights_version = "none"

    def describe_model(self) -> dict[str, Any]:
        """Return the settings by which models are told apart."""
        model_config = self.model_runner.model_config.hf_config
        return {name: getattr(model_config, name, None) for name in MODEL_SETTINGS}

    def describe_weights(self) -> dict[str, Any]:
        """Return the name of the weights that are in use: "none" for those that the server was started with."""
        return {"version": self.weights_version}

    @_answering
    def start_weights(self) -> None:
        """Begin to replace all weights: none may be used until finish_weights.

        What an earlier trainer left half done is forgotten: one that was killed, or sent weights that did not fit.
        """
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload
        from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info

        self.weights_version = "incomplete"
        model = self.model_runner.get_model()
        for layer in model.modules():
            info = get_layerwise_info(layer)
            info.loaded_weights.clear()
            info.load_numel = 0
        initialize_layerwise_reload(model)

    @_answering
    def load_weights_file(self, path: str) -> None:
        """Take the weights in a safetensors file."""
        import torch
        from safetensors.torch import load_file
        from vllm.config import set_current_vllm_config

        with torch.no_grad(), set_current_vllm_config(self.vllm_config):
            self.model_runner.get_model().load_weights(load_file(path).items())

    @_answering
    def finish_weights(self, version: str) -> None:
        """Use the weights, which are all there; they are called `version` from now on."""
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        with set_current_vllm_config(self.vllm_config):
            finalize_layerwise_reload(self.model_runner.get_model(), self.model_runner.model_config)
        self.weights_version = version
