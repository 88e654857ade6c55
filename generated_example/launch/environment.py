# vextract:template base/launch/environment.py - edit freely
"""Make .venv, in which this project runs, or write down what it has. `make setup` and `make lock` do that.

    environment.py make    .venv: what requirements.lock lists, by digest, and what pyproject.toml asks for besides
    environment.py lock    requirements.lock: the versions that .venv has, with the digests of this machine's files

An old Python must be able to read this file: it says which one is needed.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main():
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["make", "lock", "install"])
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="the environment")
    parser.add_argument("--lock", type=Path, default=Path("requirements.lock"))
    parser.add_argument("--names-in", type=Path, nargs="+", help="install what these name, not pyproject.toml")
    parser.add_argument("--without-project", action="store_true", help="do not install the project itself")
    parser.add_argument("--next", default="", help="what to say at the end")
    parser.add_argument("--this-python", action="store_true", help="make .venv again if another Python's is there")
    parser.add_argument("--compile", metavar="MODULE", help="import a module at the end, which compiles it")
    parser.add_argument("--since", type=float, default=time.time(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        {"make": make, "lock": lock, "install": install}[options.task](options)
    except KeyboardInterrupt:
        print(f"\ninterrupted: `make {'lock' if options.task == 'lock' else 'setup'}` begins again", file=sys.stderr)
        sys.exit(130)
    except OSError as error:  # a full disk, a directory that may not be written
        fail(f"{error.filename or options.venv}: {error.strerror or error}", "make room, or the directory writable")


def make(options):
    """Make the environment, unless it is there, and have its own Python install everything."""
    venv, python = options.venv, options.venv / "bin" / "python"
    here, found, least = sys.version_info[:2], version_of(python), least_version()
    if found is None or found < least or (found != here and (options.this_python or (venv / "unfinished").exists())):
        if here < least:
            hint = other_python(least) or "install one, and name it: make setup PYTHON=/path/to/python3"
            fail(f"Python {dotted(least)} or newer is needed; {sys.executable} is {dotted(sys.version_info[:3])}", hint)
        why = f"it has Python {dotted(found)}" if found else "it has no Python that starts"
        print(f"Making {venv}{' again, as ' + why if venv.exists() else ''}, with Python {dotted(here)}: some minutes,")
        print("most of them for downloads; gigabytes, where torch is a build for GPUs", flush=True)
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv)])
    (venv / "unfinished").touch()
    if subprocess.call([str(python), "-c", "import pip"], stderr=subprocess.DEVNULL):
        step("pip", [str(python), "-m", "ensurepip"], venv, hint="Debian has ensurepip in its package python3-venv")
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


def other_python(least):
    """Return the command that takes a Python of this machine that is new enough; None if there is none."""
    for minor in range(19, least[1] - 1, -1):
        name = f"python3.{minor}"
        if shutil.which(name) and version_of(name) == (3, minor):
            return f"make setup PYTHON={name}"
    return None


def dotted(version):
    """Write a version."""
    return ".".join(map(str, version))


def fail(text, hint):
    """End with an error."""
    print(f"error: {text}\nhint: {hint}", file=sys.stderr)
    sys.exit(2)


def step(text, command, venv, hint=None, must=True):
    """Run a command. Show what it is for and how long it takes; of its output, which goes to a log, only errors."""
    log, start, live = venv / "setup.log", time.time(), sys.stdout.isatty()
    print(f"  {text} ...", end="", flush=True)
    with log.open("ab") as output:
        before = output.tell()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1 if live else None)
            if live:
                print(f"\r  {text} ... {time.time() - start:.0f} s", end="", flush=True)
    print("" if live else f" {time.time() - start:.0f} s", flush=True)
    if process.returncode:
        printed = complaint(log.read_bytes()[before:].decode("utf-8", "replace"))
        if must:
            fail(f"this failed:\n{printed}", hint or f"{log} has all that was printed; `make setup` goes on from here")
        print(f"warning: this failed:\n{printed}", file=sys.stderr)


def complaint(printed):
    """Choose what to show of what a failed command printed."""
    lines = [re.sub(r" \(from versions: .*\)", "", line) for line in printed.splitlines()]
    errors = [line for line in lines if line.lower().startswith("error: ") and "Ignored the following" not in line]
    offline = [line for line in lines if "NewConnectionError" in line or "NameResolutionError" in line][-1:]
    return "\n".join([*offline, *(errors or lines[-15:])])


def install(options):
    """Install everything into the environment of the Python that runs this."""
    venv, work = options.venv, options.venv / "work"
    pip = [sys.executable, "-m", "pip", "install", "--no-compile"]
    text = options.lock.read_text(encoding="utf-8") if options.lock.exists() else ""
    shutil.rmtree(str(work), ignore_errors=True)
    work.mkdir()
    try:
        first = re.findall(r"^(?:pip|setuptools)==.*", text, re.MULTILINE) or ["pip", "setuptools"]
        step("pip and setuptools", [*pip, "--upgrade", "--no-deps", "-r", written(work / "first.txt", first)], venv)
        pins = read_pins(text)
        checked = bool(pins) and all(digests for _, digests in pins.values())
        if checked and "torch" in pins:
            install_torch(*pins["torch"], pip, venv, work)
        needs = needs_of(options, pins)
        install_locked([need for need in needs if is_locked(need, pins)], checked, pip, options)
        added = [need for need in needs if need.extras or not is_locked(need, pins)]
        if added:
            install_added(needs, added, pins, pip, options)
        if not options.without_project:
            step("the project itself", [*pip, "--no-build-isolation", "--no-deps", "--editable", "."], venv)
        if options.compile:
            command = [sys.executable, "-c", f"import sys; sys.dont_write_bytecode = False; import {options.compile}"]
            step("compiling what a run imports", command, venv, must=False)
    finally:
        shutil.rmtree(str(work), ignore_errors=True)
    (venv / "unfinished").unlink()
    print(f"Done in {time.time() - options.since:.0f} s.{' Next: ' + options.next if options.next else ''}")


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
    step(f"torch {version}: fetching it", fetch, venv)
    (file,) = (work / "torch").iterdir()
    exact = file.name.split("-")[1]
    digest = hashlib.sha256()
    with file.open("rb") as content:
        for block in iter(lambda: content.read(1 << 20), b""):
            digest.update(block)
    if digest.hexdigest() not in digests:
        # The package index has no builds with a label; those for CPUs are in the lock. Others there are many of.
        if exact.partition("+")[2] in ("", "cpu") or "+" in version:
            hint = f"if it is to be trusted: {venv}/bin/python -m pip install torch=={version} && make setup"
            fail(f"{file.name} has the digest {digest.hexdigest()}, which the lock does not list", hint)
        print(f"  note: the lock has no digest of {file.name}; it was compared with its index's alone")
    command = [*pip, "--no-deps", "--no-index", "--find-links", str(file.parent), f"torch=={exact}"]
    step(f"torch {exact}: installing it", command, venv)


def install_locked(needs, checked, pip, options):
    """Install what the lock has: pip checks all digests or none, so that what is added has to wait."""
    if needs:
        names = written(options.venv / "work" / "locked.txt", sorted({need.name for need in needs}))
        how = ["--require-hashes", "--no-build-isolation"] if checked else []
        step(f"what {options.lock} lists", [*pip, *how, "-c", str(options.lock), "-r", names], options.venv)


def install_added(needs, added, pins, pip, options):
    """Install what the lock does not have, beside what it has, and say which versions were chosen."""
    work, names = options.venv / "work", [need.name for need in added]
    free = {key(need.name) for need in added if not is_locked(need, pins)}
    versions = written(work / "versions.txt", [f"{name}=={pins[name][0]}" for name in pins if name not in free])
    command = [*pip, "-c", versions, "-r", written(work / "needs.txt", needs), "--report", str(work / "report.json")]
    lacks = f"what {options.lock} does not list: {', '.join(names)}" if pins else "the newest versions that fit"
    anew = f"; `rm {options.lock} && make setup && make lock` chooses all versions anew" if pins else ""
    step(lacks, command, options.venv, hint=f"correct pyproject.toml, then make setup{anew}")
    chosen = [item["metadata"] for item in installs(work / "report.json")]
    if chosen and pins:
        print(f"  new: {', '.join('{name} {version}'.format(**item) for item in chosen)}; `make lock` writes it down")


def lock(options):
    """Write down the versions that are installed, with their digests, unless something is missing."""
    lacks = lacking(needs_of(options, {}))
    if (options.venv / "unfinished").exists() or lacks:
        why = f"{sys.executable} lacks {', '.join(lacks)}" if lacks else f"{options.venv} is unfinished"
        fail(f"{why}: nothing was written", "make setup")
    pip = [sys.executable, "-m", "pip"]
    frozen = subprocess.check_output([*pip, "freeze", "--all", "--exclude-editable"]).decode("utf-8").splitlines()
    exact = [line for line in frozen if "==" in line.partition(";")[0] and " @ " not in line]
    for line in sorted(set(frozen) - set(exact)):
        print(f"note: left out, as it comes from no package index: {line}")
    work = Path(tempfile.mkdtemp())
    try:
        report, names = work / "report.json", written(work / "frozen.txt", exact)
        look_up = [*pip, "install", "-qq", "--dry-run", "--ignore-installed", "--no-deps", "--report", str(report)]
        print("looking up the digests of what is installed", flush=True)
        if subprocess.call([*look_up, "-r", names]):
            fail("the digests of what is installed are not to be had: nothing was written", "make lock, once they are")
        lines = []
        for item in installs(report):
            digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.append("{name}=={version} --hash=sha256:{digest}".format(digest=digest, **item["metadata"]))
        new = written(options.lock.with_name(options.lock.name + ".new"), sorted(lines, key=str.lower))
        os.replace(new, str(options.lock))
    finally:
        shutil.rmtree(str(work))
    print(f"{options.lock}: {len(lines)} packages of Python {dotted(sys.version_info[:2])}")


def installs(report):
    """Read what pip says that it installs."""
    return json.loads(report.read_text(encoding="utf-8"))["install"]


def lacking(needs):
    """List what is not installed of these requirements, and of what they need in turn."""
    from importlib.metadata import PackageNotFoundError, distribution

    from pip._vendor.packaging.requirements import Requirement

    lacks, seen, pending = [], set(), [(need, True) for need in needs]
    while pending:
        need, direct = pending.pop()
        try:
            found = distribution(need.name)
        except PackageNotFoundError:
            lacks.append(need.name)
            continue
        if direct and not need.specifier.contains(found.version, prereleases=True):
            lacks.append(str(need))
        for extra in ["", *need.extras]:
            if (key(need.name), extra) not in seen:
                seen.add((key(need.name), extra))
                for inner in map(Requirement, found.requires or []):
                    if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                        pending.append((inner, False))
    return sorted(set(lacks))


if __name__ == "__main__":
    main()
