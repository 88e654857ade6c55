# vextract:template - edit freely
"""What the in-process engine is built on: in this release upstream's own rollout by vLLM."""

from ..vendored.workers.vllm_rollout_spmd import vLLMRollout as VllmRollout

__all__ = ["VllmRollout"]
