# vextract:template - edit freely; upgrades merge your edits
"""What the in-process engine is built on: in this release upstream's own rollout by vLLM."""

from .vllm_rollout_spmd import vLLMRollout as VllmRollout

__all__ = ["VllmRollout"]
