"""`make setup`, `make lock` and Ctrl-C in a project: its Makefile, with small packages."""

import contextlib
import hashlib
import os
import pty
import subprocess
import sys
import zipfile
from pathlib import Path

import jinja2
import pytest

from extractor.pipeline.generate import complete
from extractor.pipeline.render.pins import list_checked_pins
from extractor.values import releases
from extractor.values.options import Options

TEMPLATES = Path(__file__).resolve().parents[2] / "templates/base"
# Older than what is needed, whichever Python the tests run with.
OLD = "import sys; sys.version_info = (3, 9, 18, 'final', 0); "
MANIFEST = releases.load(releases.find_default())
PINS = list_checked_pins(MANIFEST, complete(Options("tiny", MANIFEST.release, "hf"), MANIFEST))
FIRST = [line for line in PINS if line.startswith(("pip==", "setuptools=="))]
PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
version = "0"
requires-python = ">=3.10"
dependencies = [
NEEDED]
[tool.setuptools.packages.find]
include = ["tiny*"]
"""


def wheel(folder: Path, name: str, version: str = "1.0") -> str:
    """Write a wheel with one module; returns its digest."""
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    target = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return hashlib.sha256(target.read_bytes()).hexdigest()


class Tiny:
    """A project with two dependencies."""

    def __init__(self, root: Path) -> None:
        self.root, self.wheels = root / "a project", root / "wheels"
        self.wheels.mkdir()
        (self.root / "tiny").mkdir(parents=True)
        (self.root / "tiny/__init__.py").touch()
        makefile = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)
        text = makefile.from_string((TEMPLATES / "Makefile.jinja").read_text(encoding="utf-8"))
        self.write("Makefile", text.render(package="tiny", features=()))
        self.write("requirements.txt", "-c requirements.lock\nalpha>=1\ntorch>=2\n")
        self.needs("alpha>=1", "torch>=2")
        self.digests = {name: wheel(self.wheels, name) for name in ("alpha", "beta")}
        self.digests["torch"] = wheel(self.wheels, "torch", "2.0.99+cpu")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, encoding="utf-8")

    def lock(self, *names: str, **digests: str) -> None:
        """Write a lock of these, and of pip and setuptools as projects have them."""
        pins = {name: "2.0.99" if name == "torch" else "1.0" for name in names}
        hashes = {**self.digests, **digests}
        lines = [f"{name}=={version} --hash=sha256:{hashes[name]}" for name, version in pins.items()]
        self.write("requirements.lock", "\n".join([*FIRST, *lines]) + "\n")

    def needs(self, *lines: str) -> None:
        listed = "".join(f'    "{line}",\n' for line in lines)
        self.write("pyproject.toml", PYPROJECT.replace("NEEDED", listed))

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PIP_FIND_LINKS": str(self.wheels), "PIP_NO_CACHE_DIR": "1"}
        for name in ("MAKEFLAGS", "MAKELEVEL"):  # of `make test`
            environment.pop(name, None)
        return subprocess.run(["make", *arguments], cwd=self.root, env=environment, capture_output=True, text=True)


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.thorough
def test_what_is_installed(tmp_path: Path) -> None:
    """What is locked goes by its digest; what is not is resolved, and is in the next lock."""
    tiny = Tiny(tmp_path)
    tiny.lock("alpha", "torch")
    done = tiny.make("setup")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Done. Next: make train\n")
    python = tiny.root / ".venv/bin/python"
    listed = subprocess.check_output([python, "-m", "pip", "freeze"], text=True).split()
    assert {"alpha==1.0", "torch==2.0.99+cpu"} <= {*listed}
    tiny.needs("alpha>=1", "torch>=2", "beta")
    done = tiny.make("setup")
    assert done.returncode == 0, done.stderr
    assert tiny.make("lock").returncode == 0
    assert "beta==1.0\n" in (tiny.root / "requirements.lock").read_text()
    assert tiny.make("setup").returncode == 0  # by a lock without digests
    # Another file than the locked one is refused.
    subprocess.run([python, "-m", "pip", "--quiet", "uninstall", "--yes", "alpha"], check=True)
    tiny.needs("alpha>=1", "torch>=2")
    tiny.lock("alpha", "torch", alpha="0" * 64)
    done = tiny.make("setup")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_an_old_python_is_named_first(tmp_path: Path) -> None:
    """By whatever is started with it; the files that say so are such that it can read them."""
    tiny = Tiny(tmp_path)
    old = tmp_path / "python3.9"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{OLD}exec(sys.argv[1])" "$2"\n')
    old.chmod(0o755)
    done = tiny.make("setup", f"PYTHON={old}")
    assert "Python 3.10 or newer is needed" in done.stderr
    assert not (tiny.root / ".venv").exists()


MAIN = """
import time
try:
    print('runs', flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print('saved')
    raise SystemExit(130)
"""


def test_ctrl_c_ends_make_without_a_word(tmp_path: Path) -> None:
    """Pressed in a terminal."""
    tiny = Tiny(tmp_path)
    tiny.write("main.py", MAIN)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tiny.root)
        os.execvp("make", ["make", "train"])
    shown = b""
    while b"runs" not in shown:
        shown += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # the terminal is closed
        while more := os.read(terminal, 1000):
            shown += more
    _, status = os.waitpid(process, 0)
    assert b"saved" in shown
    assert not any(word in shown for word in (b"sleep", b"trap", b"***"))
    assert os.WIFSIGNALED(status)
