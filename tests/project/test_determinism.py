"""Equal commands give equal bytes, whatever the machine they run on is like."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.project import base
from tests.project.support import PACKAGE, REPOSITORY, Configuration, Made, files_of, vextract
from tests.releases import NEWEST

# Read by Python at every start: a clock that is years off, and a machine of another name and size.
ANOTHER_MACHINE = """
import os, platform, random, socket, time
_time = time.time
time.time = lambda: _time() + 3e8
time.time_ns = lambda: int(time.time() * 1e9)
_localtime, _gmtime = time.localtime, time.gmtime
time.localtime = lambda seconds=None: _localtime(time.time() if seconds is None else seconds)
time.gmtime = lambda seconds=None: _gmtime(time.time() if seconds is None else seconds)
os.cpu_count = lambda: 97
socket.gethostname = lambda: "xyzzyhost"
platform.node = lambda: "xyzzyhost"
_listdir = os.listdir
os.listdir = lambda *path: sorted(_listdir(*path), reverse=True)
open(os.environ["MARKER"], "w").close()
"""


@pytest.fixture(scope="module")
def elsewhere(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project from a process in which everything is different that should not matter; its path is hard as well."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "sitecustomize.py").write_text(ANOTHER_MACHINE, encoding="utf-8")
    work = folder / "mit Leerzeichen, ünïcode 模型 & 'quotes'"
    work.mkdir()
    settings = {
        "PYTHONHASHSEED": "12345",
        "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)]),
        "MARKER": str(folder / "marker"),
        "LC_ALL": "C",
        "LANG": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "TZ": "Pacific/Kiritimati",
        "SOURCE_DATE_EPOCH": "1",
        "COLUMNS": "20",
        "USER": "xyzzyuser",
        "PYTHONOPTIMIZE": "1",
    }
    script = f"umask 077; exec {sys.executable} -m extractor new 'pro jekt' --package {PACKAGE}"
    subprocess.run(["sh", "-c", script], cwd=work, env={**os.environ, **settings}, check=True, capture_output=True)
    assert (folder / "marker").exists()
    return work / "pro jekt"


def test_the_same_bytes_everywhere(elsewhere: Path, made: Callable[[Configuration], Made], tmp_path: Path) -> None:
    done = vextract("new", "other", "--package", PACKAGE, cwd=tmp_path, env={"PYTHONHASHSEED": "0", "TZ": "UTC"})
    assert done.returncode == 0, done.stderr
    here, there = files_of(tmp_path / "other"), files_of(elsewhere)
    assert list(here) == list(there)
    assert [path for path in here if here[path] != there[path]] == []
    in_this_process = files_of(made(Configuration(NEWEST[-1], "hf")).root)
    assert [path for path in here if here[path] != in_this_process[path]] == []


def test_no_trace_of_the_machine(elsewhere: Path) -> None:
    """No path, user or host in any file."""
    words = [str(elsewhere.parent), str(Path.home()), "xyzzy", "pro jekt", sys.prefix]
    for path, data in files_of(elsewhere).items():
        assert [word for word in words if word.encode() in data and len(word) > 1] == [], path


def test_the_archive_has_no_clock_in_it(elsewhere: Path) -> None:
    with zipfile.ZipFile(elsewhere / base.PATH) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
