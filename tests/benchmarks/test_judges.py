"""What judges conversions: bash with stand-ins for what scripts start, and how two values are compared."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import under_bash

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
