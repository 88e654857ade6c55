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
    """Return the method, with its outcome as something that goes over HTTP."""

    @wraps(method)
    def answer(*arguments: Any) -> dict[str, Any]:
        try:
            method(*arguments)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"done": True}

    return answer


class WeightReceiver:
    """Takes weights in the order start_weights, load_weights_file (any number of times), finish_weights.

    vLLM repacks weights when it loads them. Its layerwise reload undoes and repeats that, and keeps the addresses that
    CUDA graphs have captured; plain loading would write over packed weights.
    """

    model_runner: Any
    vllm_config: Any
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
