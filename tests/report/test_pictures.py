"""The pictures of README and the site: small, whole, and what a run shows today."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


def check(directory: Path) -> None:
    """Check what `scripts/pictures.py` leaves in a directory: both pictures, neither asking for anything else."""
    table, report = directory / "live-table.svg", directory / "report.png"
    svg = ElementTree.parse(table).getroot()
    text = "".join(part.text or "" for part in svg.iter("{http://www.w3.org/2000/svg}text")).replace("\xa0", " ")
    assert re.search(r"step\s*6\d/100", text)
    assert "reward" in text
    assert "url(http" not in table.read_text(encoding="utf-8")
    assert report.read_bytes().startswith(PNG)
    assert max(path.stat().st_size for path in (table, report)) < 200_000


def test_the_committed_pictures_are_whole() -> None:
    check(REPOSITORY / "docs" / "pictures")


@pytest.mark.thorough
@pytest.mark.network
def test_they_can_be_made(tmp_path: Path) -> None:
    script = REPOSITORY / "scripts" / "pictures.py"
    done = subprocess.run([sys.executable, script, "-o", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(tmp_path)
