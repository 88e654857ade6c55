# vextract:template - edit freely
"""LoRA adapters in vLLM: none. The policy hands over weights with its adapter merged into them."""


class VLLMHijack:
    """Stands where upstream patches vLLM to read adapters from memory, by names that vLLM no longer has."""

    @staticmethod
    def hijack() -> None:
        """Patch nothing."""
