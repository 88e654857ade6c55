"""The least that a start can be with these libraries: `python least.py MODEL`.

It imports torch and transformers, reads the model and the tokenizer, and takes one optimizer step. No garbage is looked
for meanwhile, as in a generated project.
"""

import contextlib
import gc
import sys

from clock import Clock


def step(model: str) -> None:
    """Take one step on any tokens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model)
    optimizer = torch.optim.AdamW(network.parameters())
    tokens = torch.ones(1, 8, dtype=torch.long)
    network(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()


if __name__ == "__main__":
    gc.disable()
    clock = Clock()
    with contextlib.redirect_stdout(sys.stderr):
        step(sys.argv[1])
    clock.report()
