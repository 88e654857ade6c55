"""Run the attacks of docs/security.md and print what came of them: python scripts/security.py [--write] [OPTION...]

Each threat is tried by tests, of which every case is an attack: one that fails has got through. Kills are counted by
scripts/kills.py, and changed input by scripts/fuzz.py. `--write` puts the table into the page. All of it takes half an
hour; `--only` runs one line of the table, and takes the others from the page.
"""

import argparse
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import fuzz, kills  # noqa: E402
from tests.hostile.targets import TARGETS  # noqa: E402

PAGE = ROOT / "docs/security.md"
BEGIN, END = "<!-- figures: written by scripts/security.py -->\n", "<!-- end of figures -->"
ROW = re.compile(r"^\| (.+?) \| ([\d,]+) \| (\d+) \|$", re.MULTILINE)
# A threat, and the tests that try it: files, directories or nodes of pytest's.
THREATS: Mapping[str, tuple[str, ...]] = {
    "a hostile wheel": ("tests/source/test_archive.py",),
    "a project, source or fork that holds anything": ("tests/hostile/test_commands.py",),
    "hostile Python, YAML, TOML, JSON, archives": ("tests/hostile/test_readers.py",),
    "a lock, journal or repository from elsewhere": ("tests/lifecycle/test_gate.py",),
    "kills, errors and full disks at calls of Python's": ("tests/lifecycle/test_kills.py",),
    "programs that a policy writes": ("tests/rewards/test_hacks.py", "tests/rewards/test_sandbox.py"),
    "answers of a server": ("tests/server/test_transport.py", "tests/server/test_answers.py"),
    "files, locks and statements that were tampered with": ("tests/cli/test_provenance.py",),
}


def by_tests(paths: tuple[str, ...], marked: str) -> tuple[int, int]:
    """Run tests; how many cases there were, and how many failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", marked, f"--junitxml={report}", *paths]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
        )
        if not report.exists():
            raise SystemExit(f"{' '.join(paths)}: pytest did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    number = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
    return number["tests"] - number["skipped"], number["failures"] + number["errors"]


def by_kills(every: int) -> tuple[int, int]:
    """Kill commands at system calls; how many kills, and how many mixed states and leftovers."""
    use = kills.shutil.which("strace") is not None
    found = kills.measure((), every=every, real=False, strace=use).values()
    return sum(count.kills for count in found), sum(count.mixed + count.left for count in found)


def by_fuzzing(minutes: float) -> tuple[int, int]:
    """Read input that was changed at random; how many, and how many went wrong."""
    sys.setrecursionlimit(fuzz.limits.PYTHON_FRAMES)
    signal.signal(signal.SIGALRM, fuzz._alarm)
    found = fuzz.fuzz(list(TARGETS), minutes, 0, []).values()
    return sum(sum(count.values()) for count in found), sum(count["wrong"] for count in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/security.md")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="kill at each Nth system call only")
    parser.add_argument("--minutes", type=float, default=2, help="how long to read changed input")
    parser.add_argument("--thorough", action="store_true", help="run the tests that take long as well")
    parser.add_argument("--only", default="", metavar="TEXT", help="run only lines of the table with this text")
    asked = parser.parse_args()
    marked = "" if asked.thorough else "not thorough"
    runs: dict[str, Callable[[], tuple[int, int]]] = {
        threat: functools.partial(by_tests, paths, marked) for threat, paths in THREATS.items()
    }
    runs["input changed at random, on every reader"] = functools.partial(by_fuzzing, asked.minutes)
    runs["kills at system calls: upgrade, --continue, --abort, sync, new"] = functools.partial(by_kills, asked.every)
    page = PAGE.read_text(encoding="utf-8")
    known = {what: (int(tried.replace(",", "")), int(wrong)) for what, tried, wrong in ROW.findall(page)}
    rows = {what: known[what] if asked.only not in what and what in known else run() for what, run in runs.items()}
    lines = ["| attacks | tried | got through |", "|---|---|---|"]
    lines += [f"| {what} | {tried:,} | {wrong} |" for what, (tried, wrong) in rows.items()]
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if asked.write:
        new = re.sub(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", f"\n{table}\n", page, flags=re.DOTALL)
        PAGE.write_text(new, encoding="utf-8")
    return 1 if any(wrong for _, wrong in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
