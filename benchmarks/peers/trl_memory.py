"""The memory of TRL's GRPOTrainer; its arguments are those of trl_grpo.py."""

import contextlib
import sys

import trl_grpo
from peak import Peak

if __name__ == "__main__":
    from trl import GRPOTrainer

    peak = Peak()
    GRPOTrainer.compute_loss = peak.beginning(GRPOTrainer.compute_loss)
    model, data, *numbers, rate = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr):
        trl_grpo.train(model, data, *map(int, numbers), rate=float(rate))  # type: ignore[arg-type]
    peak.report()
