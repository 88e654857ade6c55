"""Run every benchmark and print its figures."""

from __future__ import annotations

import sys

from benchmarks import multiturn, sizes, speed, training


def main() -> int:
    print("## Size of the vendored code (engine hf, GRPO)\n")
    ok = sizes.run()
    print("\n## Speed, as ratios within this run\n")
    ok = speed.run() and ok
    print("\n## Training, as ratios within this run\n")
    ok = training.run() and ok
    print("\n## Episodes of several turns\n")
    return 0 if multiturn.run() and ok else 1


if __name__ == "__main__":
    sys.exit(main())
