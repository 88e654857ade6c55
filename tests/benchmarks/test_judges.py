"""What judges conversions: bash with stand-ins for what scripts start, and how two values are compared."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import under_bash
from benchmarks.against_hydra import same
from benchmarks.exported import _is_changed
from extractor.importers.config.keys import Key, KeyStatus

pytestmark = pytest.mark.slow  # runs programs

SCRIPT = r"""
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
for rate in 1e-6 '2 e'; do
    SEED=7 python3 -m verl.trainer.main_ppo \
        data.train_files="$HERE/$NAME.parquet" \
        optim.lr="$rate" "$@"
done
no_such_program --flag && touch written
echo gone > "$HERE/run.sh"
"""


def _namespaces() -> bool:
    """Tell whether this machine gives a user namespaces of its own."""
    found = shutil.which("unshare")
    return (
        found is not None and not subprocess.run([found, "-rnm", "true"], capture_output=True, check=False).returncode
    )


@pytest.mark.skipif(not _namespaces(), reason="needs Linux namespaces (unshare)")
def test_bash_starts_nothing_and_says_what_it_would_have_started(tmp_path: Path) -> None:
    root = tmp_path / "check out"
    (root / "examples").mkdir(parents=True)
    script = root / "examples" / "run.sh"
    script.write_text(SCRIPT)
    started = under_bash.run(script, root, {"NAME": "rows"})
    train = [item for item in started if item.words[0] == "python3"]
    assert [item.words[1:] for item in train] == [
        ("-m", "verl.trainer.main_ppo", f"data.train_files={script.parent}/rows.parquet", f"optim.lr={rate}")
        for rate in ("1e-6", "2 e")
    ]
    assert {item.environment["SEED"] for item in train} == {"7"}
    assert started[-1].words == ("no_such_program", "--flag")
    # It could write, to a copy.
    assert script.read_text() == SCRIPT
    assert not (root / "written").exists()


def test_values_that_mean_the_same(tmp_path: Path) -> None:
    alike = ((1, 1.0), ("console", ["console"]), ([1, [2.0]], (1.0, [2])), ("???", None), ("data/x", "./data/x"))
    assert [pair for pair in alike if not same(*pair, tmp_path)] == []
    others = ((1, True), (1, "1"), ([1, 2], [1]), (None, False))
    assert [pair for pair in others if same(*pair, tmp_path)] == []


def test_what_an_export_says_it_changes_has_to_be_so(tmp_path: Path) -> None:
    said = Key("local.x", 1, KeyStatus.CHANGED, "trainer.x", "$HERE/adapters/x.py", reason="a file of the export")
    assert _is_changed(said, {"trainer.x": f"{tmp_path}/adapters/x.py"}, tmp_path)
    assert not _is_changed(said, {"trainer.x": "elsewhere.py"}, tmp_path)
    assert not _is_changed(said, {}, tmp_path)
    assert not _is_changed(Key("local.x", 1, KeyStatus.DROPPED), {"local.x": 1}, tmp_path)
