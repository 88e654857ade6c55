"""Which launch scripts of checkouts are measured: `python -m benchmarks.drawn LOT CHECKOUT... --unlike GIT`.

A draw is fixed before anybody reads what it holds. Of each checkout come so many scripts in scope that none of the
given git directories (upstream's, with all its history) has with the same content, by the digest of the lot's name and
of their path. Each is a line, `CHECKOUT|SCRIPT`, that `benchmarks.launch_scripts --drawn` takes; what its command says
besides may be written behind it, `CHECKOUT|SCRIPT|NAME=VALUE NAME=VALUE`.
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

from benchmarks.launch_scripts import in_scope


def blobs_of(repository: Path) -> frozenset[str]:
    """Return the names of all scripts' blobs in the history of a git directory, as far as it lists them."""
    command = ["git", "--git-dir", str(repository), "rev-list", "--objects", "--all", "--missing=allow-any"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return frozenset(line.split(" ", 1)[0] for line in lines if line.endswith(".sh"))


def blob(content: bytes) -> str:
    """Return the name that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def drawn(root: Path, lot: str, take: int, known: frozenset[str]) -> list[Path]:
    """Draw scripts of a checkout: those in scope whose content is not among what is known."""

    def digest(script: Path) -> str:
        return hashlib.sha256(f"{lot} {script.relative_to(root)}".encode()).hexdigest()

    scripts = [path for path in root.rglob("*.sh") if path.is_file() and in_scope(path)]
    return sorted([path for path in scripts if blob(path.read_bytes()) not in known], key=digest)[:take]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lot", help="the name of the draw")
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--take", type=int, default=2, help="at most so many scripts of each checkout")
    parser.add_argument("--unlike", type=Path, action="append", default=[], help="git directory whose scripts are out")
    options = parser.parse_args()
    known = frozenset[str]().union(*map(blobs_of, options.unlike))
    for root in options.checkouts:
        for script in drawn(root.resolve(), options.lot, options.take, known):
            print(f"{root.resolve()}|{script.relative_to(root.resolve())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
