# vextract:template - edit freely
"""A LoRA adapter in the vLLM of this process: the model is loaded once, and each hand-over is the adapter alone.

(Upstream hands it over from memory, by a patch of vLLM: VLLMHijack in verl/utils/vllm. This is vLLM's own way.)
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from vllm.lora.request import LoRARequest

from .servers.adapter_files import AdapterFiles, refused
from .servers.weight_files import make_directory


class WithAdapter:
    """An `LLM` that writes all responses with the adapter that it was last given. Other attributes are the `LLM`'s.

    Args:
        engine: the `LLM`, with room for one adapter.
        policy: the model whose adapter it is.
        dtype: that vLLM holds it in.
    """

    def __init__(self, engine: Any, policy: Any, dtype: torch.dtype) -> None:
        self.engine = engine
        self.policy = policy
        size = sum(weight.numel() for weight in policy.module.parameters() if weight.requires_grad) * dtype.itemsize
        self.directory = make_directory(None, Path(tempfile.gettempdir()), 2 * size)
        self.files = AdapterFiles(self.directory, policy.lora, dtype)
        self.adapter: LoRARequest | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def generate(self, *prompts: Any, **settings: Any) -> list[Any]:
        """Have `LLM.generate` write responses with the adapter."""
        return self.engine.generate(*prompts, **{**settings, "lora_request": self.adapter})  # type: ignore[no-any-return]

    def take_adapter(self) -> None:
        """Hand over the adapter as it is now. Every process must call this."""
        # Under a name of its own: what vLLM has cached of earlier ones is theirs.
        path, number = self.files.write(self.policy.adapter_weights())
        adapter = LoRARequest(path.name, number, str(path))
        try:
            taken = self.engine.llm_engine.add_lora(adapter)
        except Exception as error:  # of any class: it depends on what of the adapter does not fit
            raise refused(error) from error
        if not taken:
            raise refused("it has no room for it")
        self.adapter = adapter
        self.files.keep_last()

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.directory, ignore_errors=True)
