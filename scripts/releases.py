"""Write the README's table of releases, from projects that are made and verified for it.

python scripts/releases.py              all, in half an hour
python scripts/releases.py 0.9.1        the row of this release; the others stay
python scripts/releases.py --sizes      all without verifying, in a minute: those columns stay open
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from extractor import releases
from extractor.generate import complete, generate
from extractor.options import Options
from extractor.source import open_source
from extractor.tree import FileKind

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- releases: written by scripts/releases.py -->", "<!-- end of releases -->"
HEAD = (
    "| verl | files | lines | share of verl | cases equal bit for bit | upstream's tests passed | engines | presets |"
)


def size(release: str) -> tuple[int, int, str]:
    """Vendored files and lines of a project with `--engine hf` and GRPO, and their share of verl's lines."""
    manifest = releases.load(release)
    source = open_source(manifest.pin)
    made = generate(complete(Options("table", release), manifest), source, manifest)
    vendored = [file for file in made.tree if file.kind is FileKind.VENDORED and file.path.endswith(".py")]
    lines = sum(file.data.count(b"\n") for file in vendored)
    return len(vendored), lines, f"{lines / source.lines:.0%}"


def verified(release: str) -> tuple[str, str]:
    """What `vextract verify --upstream-tests` counts for the same project: equal cases, and upstream's tests.

    Raises:
        SystemExit: the project does not pass.
    """
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "table"
        _vextract("new", str(project), "--verl", release)
        report = json.loads(_vextract("verify", str(project), "--upstream-tests", "--json"))
    said = {check["name"]: check["summary"] for check in report["checks"]}
    cases = re.search(r"([\d,]+) cases equal", said["parity"])
    tests = re.search(r"\d+", said.get("upstream tests", ""))
    if cases is None:
        raise SystemExit(f"verl {release}: {said['parity']}")
    return cases.group(1), tests.group() if tests else "-"


def row(release: str, *, verify: bool) -> str:
    """One line of the table."""
    manifest = releases.load(release)
    files, lines, share = size(release)
    cases, tests = verified(release) if verify else ("-", "-")
    engines, presets = ", ".join(manifest.engines), len(manifest.algorithms)
    return f"| {release} | {files} | {lines:,} | {share} | {cases} | {tests} | {engines} | {presets} |"


def main(*chosen: str) -> None:
    """Rewrite the table, or the rows of these releases."""
    named = [item for item in chosen if item != "--sizes"]
    for release in named or reversed(releases.supported()):
        new = row(release, verify="--sizes" not in chosen)
        print(new, file=sys.stderr, flush=True)
        _write(release, new)


def _write(release: str, new: str) -> None:
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if re.match(r"\| \d", line)}
    rows[release] = new
    ordered = [rows[known] for known in reversed(releases.supported()) if known in rows]
    table = "\n".join([HEAD, "|---" * 8 + "|", *ordered])
    README.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _vextract(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "extractor", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
