"""The generated project in the current directory: `python ours.py key=value ...`, as its main.py takes them."""

import gc
import sys

import project
from clock import Clock

if __name__ == "__main__":
    gc.disable()  # main.py's own first act; the clock imports torch before main.py can
    project.begin(sys.argv[1:])
    clock = Clock()
    project.run()
    clock.report()
