# vextract:template
"""The size of the toy model: what vLLM can run on a CPU, where it has no attention heads of fewer than 32 numbers."""

HIDDEN_SIZE = 128
HEADS = 4
# With the usual 0.02 nothing is learned.
INITIALIZER_RANGE = 0.05
