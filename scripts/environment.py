"""Make an environment of this repository: what a lock lists, by digest. `make setup` and `make bench` do that.

An old Python must be able to read this file: it says which one is needed.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main():
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["make", "install"])
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="the environment")
    parser.add_argument("--lock", type=Path, default=Path("requirements.lock"))
    parser.add_argument("--names-in", type=Path, nargs="+", help="install what these name, not pyproject.toml")
    parser.add_argument("--without-project", action="store_true", help="do not install the project itself")
    parser.add_argument("--this-python", action="store_true", help="make .venv again if another Python's is there")
    parser.add_argument("--since", type=float, default=time.time(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        {"make": make, "install": install}[options.task](options)
    except KeyboardInterrupt:
        print("\ninterrupted: `make setup` begins again", file=sys.stderr)
        sys.exit(130)
    except OSError as error:  # a full disk, a directory that may not be written
        fail(f"{error.filename or options.venv}: {error.strerror or error}", "make room, or the directory writable")


def make(options):
    """Make the environment, unless it is there, and have its own Python install everything."""
    venv, python = options.venv, options.venv / "bin" / "python"
    here, found, least = sys.version_info[:2], version_of(python), least_version()
    if found is None or found < least or (found != here and (options.this_python or (venv / "unfinished").exists())):
        if here < least:
            text = f"Python {dotted(least)} or newer is needed; {sys.executable} is {dotted(sys.version_info[:3])}"
            fail(text, "name one: make setup PYTHON=python3.12, or /path/to/python3")
        why = f"it has Python {dotted(found)}" if found else "it has no Python that starts"
        print(f"Making {venv}{' again, as ' + why if venv.exists() else ''}, with Python {dotted(here)}: some minutes,")
        print("most of them for downloads; gigabytes, where torch is a build for GPUs", flush=True)
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv)])
    (venv / "unfinished").touch()
    if subprocess.call([str(python), "-c", "import pip"], stderr=subprocess.DEVNULL):
        step("pip", [str(python), "-m", "ensurepip"], hint="Debian has ensurepip in its package python3-venv")
    arguments = [str(python), __file__, "install", *sys.argv[2:], "--since", str(options.since)]
    os.execv(str(python), arguments)


def version_of(python):
    """Return the version of an interpreter, as (3, 12); None if it does not start."""
    command = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        return tuple(map(int, subprocess.check_output(command, stderr=subprocess.DEVNULL).split()))
    except (OSError, subprocess.CalledProcessError):
        return None


def least_version():
    """Read the oldest Python that pyproject.toml allows."""
    text = Path("pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"""^requires-python\s*=\s*["']>=\s*(\d+)\.(\d+)""", text, re.MULTILINE)
    return tuple(map(int, found.groups())) if found else (3, 10)


def dotted(version):
    """Write a version."""
    return ".".join(map(str, version))


def fail(text, hint):
    """End with an error."""
    print(f"error: {text}\nhint: {hint}", file=sys.stderr)
    sys.exit(2)


def step(text, command, hint="`make setup` goes on from here"):
    """Run a command. Show what it is for and how long it takes; of its output, only errors."""
    start = time.time()
    print(f"  {text} ...", end="", flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(f" {time.time() - start:.0f} s", flush=True)
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        printed = "\n".join([line for line in lines if line.startswith("ERROR: ")] or lines[-15:])
        fail(f"this failed:\n{printed}", hint)


def install(options):
    """Install everything into the environment of the Python that runs this."""
    pip = [sys.executable, "-m", "pip", "install", "--no-compile"]
    text = options.lock.read_text(encoding="utf-8") if options.lock.exists() else ""
    with tempfile.TemporaryDirectory(dir=str(options.venv)) as folder:
        work = Path(folder)
        first = re.findall(r"^(?:pip|setuptools)==.*", text, re.MULTILINE) or ["pip", "setuptools"]
        step("pip and setuptools", [*pip, "--upgrade", "--no-deps", "-r", written(work / "first.txt", first)])
        pins = read_pins(text)
        checked = bool(pins) and all(digests for _, digests in pins.values())
        if checked and "torch" in pins:
            install_torch(*pins["torch"], pip, options.venv, work)
        needs = needs_of(options, pins)
        locked = sorted({need.name for need in needs if is_locked(need, pins)})
        if locked:  # pip checks all digests or none, so that what is added has to wait
            how = ["--require-hashes", "--no-build-isolation"] if checked else []
            names = written(work / "locked.txt", locked)
            step(f"what {options.lock} lists", [*pip, *how, "-c", str(options.lock), "-r", names])
        added = [need for need in needs if need.extras or not is_locked(need, pins)]
        if added:
            install_added(needs, added, pins, [*pip, "--report", str(work / "report.json")], options.lock, work)
        if not options.without_project:
            step("the project itself", [*pip, "--no-build-isolation", "--no-deps", "--editable", "."])
    (options.venv / "unfinished").unlink()
    print(f"Done in {time.time() - options.since:.0f} s.")


def written(path, lines):
    """Write lines to a file, and return its path."""
    path.write_text("\n".join(map(str, lines)) + "\n", encoding="utf-8")
    return str(path)


def read_pins(text):
    """Read a lock: name -> (version, digests), of what is for this machine and this Python."""
    from pip._vendor.packaging.requirements import Requirement

    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        pin, *digests = line.partition("#")[0].split("--hash=sha256:")
        if "==" in pin:
            wanted = Requirement(pin.strip())
            if wanted.marker is None or wanted.marker.evaluate():
                (exact,) = wanted.specifier
                found[key(wanted.name)] = (exact.version, [digest.strip() for digest in digests])
    return found


def key(name):
    """Return the one way to write a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needs_of(options, pins):
    """Collect what is asked for, as far as it is for this machine; of files of pins the names, not the versions."""
    from pip._vendor.packaging.requirements import Requirement

    if options.names_in:
        texts = [path.read_text(encoding="utf-8") for path in options.names_in]
        names = [line.partition("==")[0] for text in texts for line in text.splitlines() if line and line[0] != "#"]
        return [Requirement(name) for name in names if key(name) in pins]
    try:
        import tomllib
    except ImportError:  # Python 3.10
        from pip._vendor import tomli as tomllib
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project.get("dependencies", []), *project.get("optional-dependencies", {}).get("dev", [])]
    needs = [Requirement(line) for line in lines]
    return [need for need in needs if need.marker is None or need.marker.evaluate({"extra": "dev"})]


def is_locked(need, pins):
    """Tell whether a lock has a version that fits."""
    version, _ = pins.get(key(need.name), (None, None))
    return version is not None and not need.url and need.specifier.contains(version, prereleases=True)


def install_torch(version, digests, pip, venv, work):
    """Install torch, unless that version is there.

    It goes first and alone: pip fetches the build that it is set up for, for CPUs perhaps, and that is checked here.
    Given the digests, pip would take the package index's build, with gigabytes of CUDA libraries.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    with contextlib.suppress(PackageNotFoundError):
        if distribution("torch").version.partition("+")[0] == version.partition("+")[0]:
            return
    fetch = [*pip[:3], "download", "--no-deps", "--dest", str(work / "torch"), f"torch=={version}"]
    step(f"torch {version}: fetching it", fetch)
    (file,) = (work / "torch").iterdir()
    exact = file.name.split("-")[1]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest not in digests:
        # The package index has no builds with a label; those for CPUs are in the lock. Others there are many of.
        if exact.partition("+")[2] in ("", "cpu") or "+" in version:
            hint = f"if it is to be trusted: {venv}/bin/python -m pip install torch=={version} && make setup"
            fail(f"{file.name} has the digest {digest}, which the lock does not list", hint)
        print(f"  note: the lock has no digest of {file.name}; it was compared with its index's alone")
    command = [*pip, "--no-deps", "--no-index", "--find-links", str(file.parent), f"torch=={exact}"]
    step(f"torch {exact}: installing it", command)


def install_added(needs, added, pins, pip, lock, work):
    """Install what the lock does not have, beside what it has, and say which versions were chosen."""
    free = {key(need.name) for need in added if not is_locked(need, pins)}
    versions = written(work / "versions.txt", [f"{name}=={pins[name][0]}" for name in pins if name not in free])
    names = ", ".join(need.name for need in added)
    lacks = f"what {lock} does not list: {names}" if pins else "the newest versions that fit"
    command = [*pip, "-c", versions, "-r", written(work / "needs.txt", needs)]
    step(lacks, command, hint="correct pyproject.toml, then make setup")
    chosen = [item["metadata"] for item in installs(work / "report.json")]
    if chosen and pins:
        print(f"  new: {', '.join('{name} {version}'.format(**item) for item in chosen)}")


def installs(report):
    """Read what pip says that it installs."""
    return json.loads(report.read_text(encoding="utf-8"))["install"]


if __name__ == "__main__":
    main()
