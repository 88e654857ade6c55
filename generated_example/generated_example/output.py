# vextract:template base/__package__/output.py - edit freely
"""Print for a reader that may leave early."""

import os
import sys


def say(text: str) -> None:
    """Print to stdout. A reader that has left, as `head` does, is no error: what follows goes nowhere."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
