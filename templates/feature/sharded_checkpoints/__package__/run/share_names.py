# vextract:template - edit freely
"""What a checkpoint's directories are called in which each process has written its share; imports nothing slow.

`shards`, which reads and writes them, imports torch's checkpoint code: what a start imports takes it where it needs it.
"""

from pathlib import Path

# A model's directory in a checkpoint has these,
WEIGHTS, OPTIMIZER = "weights", "optimizer"
# and each of them a list of its tensors.
LISTED = "tensors.json"


def is_sharded(directory: Path) -> bool:
    """Tell whether `shards.write_shards` wrote a directory."""
    return (directory / LISTED).is_file()


def holds_shares(model: Path) -> bool:
    """Tell whether a model's directory has its weights in shares, which this project alone reads."""
    return is_sharded(model / WEIGHTS)
