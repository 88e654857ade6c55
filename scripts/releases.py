"""Write the table of releases, from projects that are made and verified for it, and what README claims by it.

python scripts/releases.py              all, in half an hour
python scripts/releases.py 0.9.1        the row of this release; the others stay
python scripts/releases.py --sizes      all without verifying, in a minute: what verifying counts stays as it is
python scripts/releases.py --check      says whether the table has every release, and README claims what it says
"""

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
PAGE, README = ROOT / "docs/recipes.md", ROOT / "README.md"
BEGIN, END = "<!-- releases: written by scripts/releases.py -->", "<!-- end of releases -->"
HEAD = (
    "| verl | files | lines | share of verl | cases equal bit for bit | share of lines that they run "
    "| engines | presets |"
)
CLAIM_BEGIN, CLAIM_END = "<!-- claim: written by scripts/releases.py -->", "<!-- end of claim -->"
CLAIM = (
    "`vextract verify` runs {cases} cases on a project's code and on upstream's, and compares the results bit for bit; "
    "they run {share} of the lines of a default project with verl {release}."
)


def size(release: str) -> tuple[int, int, str]:
    """Count the vendored files and lines of a project with `--engine hf` and GRPO, and their share of verl's lines."""
    manifest = releases.load(release)
    source = open_source(manifest.pin)
    made = generate(complete(Options("table", release), manifest), source, manifest)
    vendored = [file for file in made.tree if file.kind is FileKind.VENDORED and file.path.endswith(".py")]
    lines = sum(file.data.count(b"\n") for file in vendored)
    return len(vendored), lines, f"{lines / source.lines:.0%}"


def verified(release: str) -> tuple[str, str]:
    """Count by `vextract verify`: equal cases, and the share of lines that they run.

    Raises:
        SystemExit: the project does not pass.
    """
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "table"
        _vextract("new", str(project), "--verl", release)
        report = json.loads(_vextract("verify", str(project), "--json"))
    said = {check["name"]: check["summary"] for check in report["checks"]}
    cases = re.search(r"([\d,]+) cases equal", said["parity"])
    share = re.search(r"\d+% of the lines", said["coverage"])
    if cases is None or share is None:
        raise SystemExit(f"verl {release}: {said['parity']}; {said['coverage']}")
    return cases.group(1), share.group().split()[0]


def row(release: str, *, verify: bool) -> str:
    """Write one line of the table; without `verify` what that counts is as the table has it."""
    files, lines, share = size(release)
    known = [cell.strip() for cell in _rows().get(release, "").split("|")][5:7]
    cases, run = verified(release) if verify else known or ("-", "-")
    return f"| {release} | {files} | {lines:,} | {share} | {cases} | {run} | {_offers(release)} |"


def main(*chosen: str) -> int:
    """Rewrite the table, or the rows of these releases; or say whether it and README can be right."""
    if chosen == ("--check",):
        return _check()
    named = [item for item in chosen if item != "--sizes"]
    for release in named or reversed(releases.list_supported()):
        new = row(release, verify="--sizes" not in chosen)
        print(new, file=sys.stderr, flush=True)
        _write(release, new)
    README.write_text(_claimed(README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def _check() -> int:
    """Compare what can be told without reading verl: the releases, what they offer, and README."""
    rows = _rows()
    wrong = [known for known in releases.list_supported() if not rows.get(known, "").endswith(f"| {_offers(known)} |")]
    for known in wrong:
        print(f"docs/recipes.md: verl {known} is out of date: python scripts/releases.py {known}", file=sys.stderr)
    text = README.read_text(encoding="utf-8")
    if not wrong and text != _claimed(text):
        print("README.md: its claims are not what docs/recipes.md says: python scripts/releases.py", file=sys.stderr)
        return 1
    return int(bool(wrong))


def _offers(release: str) -> str:
    """Write the last two cells of a row, which the manifest alone says."""
    manifest = releases.load(release)
    return f"{', '.join(manifest.engines)} | {len(manifest.algorithms)}"


def _claimed(text: str) -> str:
    """Return README with what it says of the newest release, and how many releases and presets there are."""
    known, newest = releases.list_supported(), releases.find_default()
    cells = [cell.strip() for cell in _rows()[newest].strip("|").split("|")]
    said = textwrap.wrap(CLAIM.format(cases=cells[4], share=cells[5], release=newest), 128)
    before, _, rest = text.partition(CLAIM_BEGIN)
    _, _, after = rest.partition(CLAIM_END)
    text = "\n   ".join([before + CLAIM_BEGIN, *said, CLAIM_END]) + after
    presets = {name for release in known for name in releases.load(release).algorithms}
    text = re.sub(r"\[\d+ releases, \S+ to \S+\]", f"[{len(known)} releases, {known[0]} to {known[-1]}]", text)
    text = re.sub(r"# verl \S+, GRPO", f"# verl {newest}, GRPO", text)
    return re.sub(r"\[\d+ presets\]", f"[{len(presets)} presets]", text)


def _rows() -> dict[str, str]:
    """Return the lines of the table, by release."""
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    return {line.split("|")[1].strip(): line for line in table.splitlines() if re.match(r"\| \d", line)}


def _write(release: str, new: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = {**_rows(), release: new}
    ordered = [rows[known] for known in reversed(releases.list_supported()) if known in rows]
    table = "\n".join([HEAD, "|---" * 8 + "|", *ordered])
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _vextract(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "extractor", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
