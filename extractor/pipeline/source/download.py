"""Download a release with the user's own pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.values.errors import SourceError

if TYPE_CHECKING:
    from extractor.values.manifest import SourcePin

_HINT = (
    "check the network and pip's index settings (`pip config list`), or pass the source with --from"
    " WHEEL|DIRECTORY; a release that is in the cache needs no network (--offline)"
)


def download_wheel(pin: SourcePin, into: Path) -> Path:
    """Download a release's wheel, checked against the index's digest.

    Only ever a wheel: to fetch an sdist pip would run its build script, and nothing of upstream is executed here.
    """
    release = pin.release
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--progress-bar", "off", "--dest", str(into)]
    # The version rule of whichever pip runs must not decide: the wheel is read, not installed.
    options.append("--ignore-requires-python")
    command = [*_find_pip(), "download", *options, f"verl=={release}"]
    environment = {
        **os.environ,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_REQUIRE_HASHES": "0",  # ours is checked against the pin
        "NO_COLOR": "1",
    }
    try:
        # Run where no file of the user's can shadow a module that pip imports.
        done = subprocess.run(
            command,
            cwd=into,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise SourceError(f"pip could not be started: {error.strerror or error}", hint=_HINT) from None
    if done.returncode:
        full = "No space left on device" in done.stdout
        hint = "free some space, or name another cache directory: VEXTRACT_CACHE_DIR=DIR" if full else _HINT
        raise SourceError(f"verl {release} could not be downloaded: {read_reason(done.stdout)}", hint=hint)
    found = sorted(path for path in into.iterdir() if path.suffix == ".whl")
    if len(found) != 1 or found[0].name != (pin.wheel_filename or found[0].name):
        names = ", ".join(path.name for path in found) or "nothing"
        wanted = pin.wheel_filename or "one wheel"
        raise SourceError(f"pip downloaded {names} for verl {release}, expected {wanted}", hint=_HINT)
    return found[0]


def _find_pip() -> list[str]:
    # Not `importlib.util.find_spec`: asked for pip, setuptools' finder takes it as imported and gives up distutils.
    if PathFinder.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip", "pip3"):
        found = shutil.which(name)
        if found:
            return [found]
    raise SourceError(
        "pip is needed to download verl, and neither this Python nor PATH has it",
        hint=f"run `{sys.executable} -m ensurepip`, or pass the source with --from WHEEL|DIRECTORY",
    )


def read_reason(output: str) -> str:
    """Return the most telling line of pip's output, without credentials."""
    lines = [re.sub(r"//[^/@\s]+@", "//***@", line.strip()) for line in output.splitlines() if line.strip()]
    broken = [line for line in lines if "connection broken by" in line]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    if errors == ["Exception:"]:  # a traceback follows, which ends with what happened
        errors = []
    useful = [line for line in errors if not line.startswith("No matching distribution")] or errors
    if broken and (not useful or "from versions: none" in useful[-1]):
        found = re.search(r"connection broken by '(.*)'", broken[-1])
        return f"no connection: {found.group(1) if found else broken[-1]}"[:300]
    return (useful or lines or ["pip failed and said nothing"])[-1][:300]
