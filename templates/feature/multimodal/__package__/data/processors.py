# vextract:template - edit freely
"""Where this release of verl has its processors of images."""

from ..vendored.utils.tokenizer.tokenizer import hf_processor

__all__ = ["hf_processor"]
