"""Write the table of releases, from projects that are made and verified for it, and what README claims by it.

python scripts/releases.py              all, in half an hour
python scripts/releases.py 0.9.1        the row of this release; the others stay
python scripts/releases.py --sizes      all without verifying, in a minute: those columns stay open
python scripts/releases.py --check      says whether README claims what the table says of the newest release
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from extractor.pipeline.generate import complete, generate
from extractor.pipeline.source import open_source
from extractor.values import releases
from extractor.values.options import Options
from extractor.values.tree import FileKind

ROOT = Path(__file__).resolve().parents[1]
PAGE, README = ROOT / "docs/supported.md", ROOT / "README.md"
BEGIN, END = "<!-- releases: written by scripts/releases.py -->", "<!-- end of releases -->"
HEAD = (
    "| verl | files | lines | share of verl | cases equal bit for bit | share of lines that they run "
    "| upstream's tests passed | engines | presets |"
)
CLAIM_BEGIN, CLAIM_END = "<!-- claim: written by scripts/releases.py -->", "<!-- end of claim -->"
CLAIM = (
    "`vextract verify` runs {cases} cases on it and on upstream, and compares the results bit for bit; the cases run "
    "{share} of the lines of a default project with verl {release}."
)


def size(release: str) -> tuple[int, int, str]:
    """Count the vendored files and lines of a project with `--engine hf` and GRPO, and their share of verl's lines."""
    manifest = releases.load(release)
    source = open_source(manifest.pin)
    made = generate(complete(Options("table", release), manifest), source, manifest)
    vendored = [file for file in made.tree if file.kind is FileKind.VENDORED and file.path.endswith(".py")]
    lines = sum(file.data.count(b"\n") for file in vendored)
    return len(vendored), lines, f"{lines / source.lines:.0%}"


def verified(release: str) -> tuple[str, str, str]:
    """Count by `vextract verify --upstream-tests`: equal cases, the share of lines that they run, upstream's tests.

    Raises:
        SystemExit: the project does not pass.
    """
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "table"
        _vextract("new", str(project), "--verl", release)
        report = json.loads(_vextract("verify", str(project), "--upstream-tests", "--json"))
    said = {check["name"]: check["summary"] for check in report["checks"]}
    cases = re.search(r"([\d,]+) cases equal", said["parity"])
    share = re.search(r"\d+% of the lines", said["coverage"])
    tests = re.search(r"\d+", said.get("upstream tests", ""))
    if cases is None or share is None:
        raise SystemExit(f"verl {release}: {said['parity']}; {said['coverage']}")
    return cases.group(1), share.group().split()[0], tests.group() if tests else "-"


def row(release: str, *, verify: bool) -> str:
    """Write one line of the table."""
    manifest = releases.load(release)
    files, lines, share = size(release)
    cases, run, tests = verified(release) if verify else ("-", "-", "-")
    engines, presets = ", ".join(manifest.engines), len(manifest.algorithms)
    return f"| {release} | {files} | {lines:,} | {share} | {cases} | {run} | {tests} | {engines} | {presets} |"


def main(*chosen: str) -> int:
    """Rewrite the table, or the rows of these releases."""
    if chosen == ("--check",):
        return _claim(check=True)
    named = [item for item in chosen if item != "--sizes"]
    for release in named or reversed(releases.supported()):
        new = row(release, verify="--sizes" not in chosen)
        print(new, file=sys.stderr, flush=True)
        _write(release, new)
    return _claim(check=False)


def _claim(*, check: bool) -> int:
    """Write what README says of the newest release, from the table; or only compare."""
    newest = releases.default()
    (found,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {newest} |")]
    cells = [cell.strip() for cell in found.strip("|").split("|")]
    said = textwrap.wrap(CLAIM.format(cases=cells[4], share=cells[5], release=newest), 128)
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(CLAIM_BEGIN)
    _, _, after = rest.partition(CLAIM_END)
    wanted = "\n   ".join([before + CLAIM_BEGIN, *said, CLAIM_END]) + after
    if check and text != wanted:
        print("README.md: its claim is not what docs/supported.md says: python scripts/releases.py", file=sys.stderr)
    if not check:
        README.write_text(wanted, encoding="utf-8")
    return int(check and text != wanted)


def _write(release: str, new: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if re.match(r"\| \d", line)}
    rows[release] = new
    ordered = [rows[known] for known in reversed(releases.supported()) if known in rows]
    table = "\n".join([HEAD, "|---" * 9 + "|", *ordered])
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _vextract(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "extractor", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
