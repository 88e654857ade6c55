# vextract:template - edit freely
"""The policy of a model that the caller has loaded; it is trained in place."""

from typing import Any

from ..run.distributed import Ranks
from ..switches import QLORA
from .models import taken_over
from .policy import Policy, load_causal_lm
from .quantized import quantized_reader


class GivenPolicy(Policy):
    """The model that is trained, loaded already.

    Args:
        module: the model; it gets the weights that `Policy` would load, unless they are to be packed.
        config, tokenizer, ranks, path, total_steps: see `Policy`.
    """

    def __init__(self, module: Any, config: Any, tokenizer: Any, ranks: Ranks, path: str, total_steps: int) -> None:
        self._given = module
        if QLORA and quantized_reader(config) is not None:
            self._given = None  # weights are packed where they are read
        super().__init__(config, tokenizer, ranks, path, total_steps)
        self._given = None  # from now on weights are read anew

    def load(self, path: str, ranks: Ranks) -> Any:
        """Return the model that is given, with the weights at `path`."""
        if self._given is None:
            return super().load(path, ranks)
        section = self.config.actor_rollout_ref
        fsdp_config, loaded = section.actor.fsdp_config, None
        if path != section.model.path:
            loaded = load_causal_lm(self.config, path, fsdp_config, self.tokenizer, ranks)
        return taken_over(self._given, loaded, section.model, fsdp_config, self.tokenizer)
