"""The cache, and the download behind it."""

import os
import sys
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest

from extractor.pipeline.source import cache, download, open_source
from extractor.values import releases
from extractor.values.errors import SourceError
from extractor.values.manifest import SourcePin
from tests.source import archives

DATA = archives.wheel()
PIN = archives.pin(wheel=DATA)


def entry(directory: Path) -> Path:
    (found,) = (path for path in directory.rglob("*") if path.is_file())
    return found


def damage(directory: Path, data: bytes) -> Path:
    path = entry(directory)
    path.chmod(0o644)
    path.write_bytes(data)
    return path


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch):
    """Stands in for the package index; counts the downloads."""
    served: list[bytes] = []
    answers = [DATA]

    def wheel(pin, into: Path) -> Path:
        served.append(answers[-1])
        (into / archives.WHEEL).write_bytes(answers[-1])
        return into / archives.WHEEL

    monkeypatch.setattr(download, "download_wheel", wheel)
    wheel.served, wheel.answers = served, answers
    return wheel


@pytest.mark.parametrize("pin", [PIN, SourcePin("0.6.1", "", "")], ids=["pinned", "a release without manifest"])
def test_downloads_once_and_again_where_the_entry_is_damaged(tmp_path: Path, index, pin: SourcePin) -> None:
    with pytest.raises(SourceError, match=r"verl 0\.6\.1 is not in the cache") as caught:
        open_source(pin, offline=True, cache_dir=tmp_path / "cache")
    assert "--from" in caught.value.hint
    assert not (tmp_path / "cache").exists()
    first = open_source(pin, cache_dir=tmp_path)
    assert open_source(pin, cache_dir=tmp_path) == first
    assert open_source(pin, offline=True, cache_dir=tmp_path) == first
    assert len(index.served) == 1
    assert entry(tmp_path).stat().st_mode & 0o222 == 0
    damage(tmp_path, DATA[: len(DATA) // 2])
    with pytest.raises(SourceError, match="is damaged in the cache") as caught:
        open_source(pin, offline=True, cache_dir=tmp_path)
    assert "without --offline" in caught.value.hint
    assert open_source(pin, cache_dir=tmp_path) == first
    assert entry(tmp_path).read_bytes() == DATA


def test_what_cannot_be_had_or_kept(tmp_path: Path, index) -> None:
    index.answers.append(archives.wheel({**archives.FILES, "verl/evil.py": b""}))
    with pytest.raises(SourceError, match=r"from the package index is not verl 0\.6\.1 as released"):
        open_source(PIN, cache_dir=tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="cannot be written") as caught:
        open_source(PIN, cache_dir=tmp_path / "file/cache")
    assert "VEXTRACT_CACHE_DIR" in caught.value.hint


def _fetch(directory: str) -> str:
    """In a process of its own: fetch with a download that takes its time."""

    def slow(into: Path) -> Path:
        with (into / archives.WHEEL).open("wb") as file:
            for start in range(0, len(DATA), 64):
                file.write(DATA[start : start + 64])
                file.flush()
                os.sched_yield()
        return into / archives.WHEEL

    return sha256(cache.fetch(PIN, Path(directory), slow)[1]).hexdigest()


def test_two_runs_at_once(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        assert set(pool.map(_fetch, [str(tmp_path)] * 8)) == {PIN.wheel_sha256}
    assert entry(tmp_path).read_bytes() == DATA


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")  # what it says then is read
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SourceError, match=r"verl 0\.6\.1 could not be downloaded: no connection: ") as caught:
        open_source(PIN, cache_dir=tmp_path)
    assert "--from" in caught.value.hint
    assert "\n" not in caught.value.message
    assert not list(tmp_path.iterdir())


def test_pip_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "served.whl").write_bytes(DATA)
    script = tmp_path / "bin/pip"
    script.parent.mkdir()
    copy = f'import shutil, sys; shutil.copy("{tmp_path}/served.whl", sys.argv[2] + "/{archives.WHEEL}")'
    script.write_text(f"#!/bin/sh\nwhile [ $1 != --dest ]; do shift; done\n{sys.executable} -c '{copy}' \"$@\"\n")
    script.chmod(0o755)
    monkeypatch.setattr(download, "PathFinder", SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setenv("PATH", str(script.parent))
    assert open_source(PIN, cache_dir=tmp_path / "cache").sha256 == PIN.wheel_sha256
    script.unlink()
    with pytest.raises(SourceError, match="pip is needed") as caught:
        open_source(PIN, cache_dir=tmp_path / "other")
    assert "ensurepip" in caught.value.hint


@pytest.mark.network
def test_real_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    pin = releases.load("0.6.1").pin
    source = open_source(pin, cache_dir=tmp_path / "cache")
    assert (source.release, source.sha256) == ("0.6.1", pin.wheel_sha256)
    assert "verl/trainer/ppo/core_algos.py" in source.files
    assert "Apache License" in source.licence
    assert open_source(pin, offline=True, cache_dir=tmp_path / "cache") == source
