# vextract:template - edit freely
"""Train on demonstrations: main.py with flags that stand for settings, and with config/sft.yaml.

python -m PACKAGE.train_sft --model-path M --train-files T.parquet --total-epochs 2 --batch-size 64 KEY=VALUE...
"""

import sys

from .api.command_line import train
from .api.names.supervised_flags import SupervisedFlags

if __name__ == "__main__":
    own = ["--config-name=sft"] * (not any(word.startswith(("--config-name", "-cn")) for word in sys.argv[1:]))
    train(
        "grpo",
        "Train on demonstrations. Each flag stands for settings, whose keys follow it below.",
        [*own, *sys.argv[1:]],
        SupervisedFlags,
        "train_sft",
    )
