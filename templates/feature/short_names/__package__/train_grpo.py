# vextract:template - edit freely
"""Train by GRPO: main.py with flags that stand for settings.

python -m PACKAGE.train_grpo --model-path M --train-files T.parquet --total-epochs 2 --batch-size 64 KEY=VALUE...
"""

import sys

from .api.command_line import train

if __name__ == "__main__":
    train("grpo", "Train by GRPO. Each flag stands for settings, whose keys follow it below.", sys.argv[1:])
