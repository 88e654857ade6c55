# vextract:template - edit freely
"""LoRA adapters in vLLM: from files, as vLLM reads them itself (workers/vllm_adapter.py)."""


class VLLMHijack:
    """Stands where upstream patches vLLM to read adapters from memory, by names that vLLM no longer has."""

    @staticmethod
    def hijack() -> None:
        """Patch nothing."""
