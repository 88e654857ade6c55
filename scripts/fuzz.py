"""Try input that nobody meant to write on every reader: python scripts/fuzz.py [--minutes N] [--seed N] [READER...]

Starts from the inputs in tests/hostile/inputs.py, and from files given with --from, changes them at random, and reads
them. Whatever ends in another error than the reader's own, or not within 20 seconds, is written below build/fuzz/ and
makes the exit code 1. Put what it finds into tests/hostile/inputs.py, under a name that says what it is.
"""

import argparse
import random
import signal
import sys
import time
import traceback
from collections import Counter
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from extractor.values import limits  # noqa: E402
from tests.hostile.targets import TARGETS, mutated  # noqa: E402

AT_MOST = 20
FOUND = ROOT / "build/fuzz"


class Endless(BaseException):
    """A reader that has not come to its end."""


def attempt(name: str, data: bytes) -> str:
    """Read it; "accepted", "refused", or what went wrong."""
    target = TARGETS[name]
    signal.alarm(AT_MOST)
    try:
        target.read(data)
    except target.allowed:
        return "refused"
    except Endless:
        return f"no end within {AT_MOST} seconds"
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:100]} ({Path(frame.filename).name}:{frame.lineno})"
    finally:
        signal.alarm(0)
    return "accepted"


def fuzz(names: list[str], minutes: float, seed: int, more: list[bytes]) -> dict[str, Counter[str]]:
    """Count the outcomes of each reader."""
    chance = random.Random(seed)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    until = time.monotonic() + 60 * minutes
    plain = {name: [*TARGETS[name].seeds, *more] for name in names}
    while True:
        for name in names:
            # Each seed as it is, then changed ones, the small ones first: they are read faster.
            first = plain[name].pop() if plain[name] else None
            data = first if first is not None else mutated(_seed(name, more, chance), chance)
            outcome = attempt(name, data)
            if outcome not in ("accepted", "refused"):
                FOUND.mkdir(parents=True, exist_ok=True)
                place = FOUND / f"{name.replace(' ', '-')}-{sha256(data).hexdigest()[:12]}"
                place.write_bytes(data)
                print(f"{name}: {outcome}: {place.relative_to(ROOT)}", file=sys.stderr)
                outcome = "wrong"
            counts[name][outcome] += 1
        if time.monotonic() > until and not any(plain.values()):
            return counts


def _seed(name: str, more: list[bytes], chance: random.Random) -> bytes:
    seeds = sorted([*TARGETS[name].seeds, *more], key=len)
    return seeds[int(len(seeds) * chance.random() ** 2)]


def _alarm(*_: object) -> None:
    raise Endless


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", help=f"some of: {', '.join(TARGETS)}; all by default")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="files", action="append", type=Path, default=[], metavar="FILE")
    asked = parser.parse_args()
    unknown = sorted(set(asked.readers) - set(TARGETS))
    if unknown:
        parser.error(f"no reader {', '.join(unknown)}; there are: {', '.join(TARGETS)}")
    sys.setrecursionlimit(limits.PYTHON_FRAMES)
    signal.signal(signal.SIGALRM, _alarm)
    more = [file.read_bytes() for file in asked.files]
    counts = fuzz(asked.readers or list(TARGETS), asked.minutes, asked.seed, more)
    for name, found in counts.items():
        total = sum(found.values())
        print(
            f"{name}: {total} inputs, {found['accepted']} accepted, {found['refused']} refused, {found['wrong']} wrong"
        )
    return 1 if any(found["wrong"] for found in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
