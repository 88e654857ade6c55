"""Write requirements.lock: the exact versions that a project installs."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from extractor.values import readers, resources
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from extractor.values.reachable import find_reachable
from extractor.values.toml_table import read_toml

# What `make setup` installs first: older versions check no digests of constraints, or need a package to build a wheel.
FIRST = ("pip>=26.3", "setuptools>=77")


def list_pins(manifest: Manifest, options: Options) -> tuple[str, ...]:
    """List the pinned requirements of a project, transitive ones included.

    Args:
        manifest: The release; one that is not supported may ask for what no lock has, which is left out then.
        options: The project's choices.

    Returns:
        "name==version", some with a marker, sorted; empty where the engine has no lock.
    """
    locked = read_resolution(options.engine)
    ranges = _list_ranges(manifest, options)
    found = collect_closure(ranges, locked)
    lines = []
    for name in sorted(found):
        for version in locked[name]["versions"]:
            if name not in ranges or _write_number(version) in ranges[name].specifier:
                lines.append(f"{name}{version}")
    return tuple(lines)


def list_checked_pins(manifest: Manifest, options: Options) -> tuple[str, ...]:
    """List the pinned requirements with the digests of their files.

    Returns:
        The same lines without a digest, all of them, where something that is needed has no lock: pip takes no list
        that is checked in part.
    """
    pins = list_pins(manifest, options)
    if _list_ranges(manifest, options).keys() - read_resolution(options.engine).keys():
        return pins
    digests = _read_digests()
    return tuple(
        " ".join([pin, *(f"--hash=sha256:{digest}" for digest in digests[pin.partition(" ;")[0]])]) for pin in pins
    )


def list_needs(manifest: Manifest, options: Options) -> tuple[str, ...]:
    """List the requirements that `make setup` installs."""
    return (*manifest.list_requirements(options), *manifest.requirements.dev)


def collect_closure(names: Iterable[str], locked: Mapping[str, Any]) -> set[str]:
    """Collect the locked packages that these need, themselves among them."""
    return find_reachable((name for name in names if name in locked), lambda name: locked[name]["requires"])


def _list_ranges(manifest: Manifest, options: Options) -> dict[str, Requirement]:
    return {canonicalize_name(item.name): item for item in map(_parsed, (*list_needs(manifest, options), *FIRST))}


_parsed = cache(Requirement)


@cache
def _read_digests() -> Mapping[str, list[str]]:
    """Read "name==version" -> sha256 of each file, from scripts/locks.py."""
    found: dict[str, list[str]] = json.loads((resources.find_locks() / "digests.json").read_text(encoding="utf-8"))
    return found


@cache
def read_resolution(engine: str) -> Mapping[str, Any]:
    """Read an engine's resolution: name -> versions and required names."""
    path = resources.find_locks() / f"{engine}.toml"
    return read_toml(readers.read_text(path), path.name) if path.is_file() else {}


def _write_number(version: str) -> str:
    """Take the number from "==1.2 ; marker"."""
    return re.split(r"[ ;]", version.removeprefix("=="), maxsplit=1)[0]
