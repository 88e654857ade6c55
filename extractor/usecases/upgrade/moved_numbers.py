"""Find what upstream's own code computes otherwise in another release."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extractor.usecases.verify import interpreter, parity, subject
from extractor.usecases.verify.compare import find_difference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from extractor.pipeline.source import Source


@dataclass(frozen=True)
class MovedNumbers:
    """Results of the same cases in two releases.

    Attributes:
        compared: How many cases both releases compute.
        moved: How the first case differs, by what it is about: "core_algos.policy_loss[gpg]".
    """

    compared: int
    moved: Mapping[str, str]


def compare_releases(project: Path, old: Source, new: Source) -> MovedNumbers:
    """Run the cases of a project's vendored modules on two releases.

    Only upstream's code runs, with the project's Python.

    Raises:
        CheckFailed: the project has no Python with its requirements, or upstream's code does not run there.
    """
    found = subject.read(project)
    python = interpreter.choose(project, None)
    before, after = (_compute(found, source, python) for source in (old, new))
    both = [name for name, case in before.items() if _is_computed(case) and _is_computed(after.get(name, {}))]
    moved: dict[str, str] = {}
    for name in both:
        how = find_difference(before[name]["value"], after[name]["value"], (f"in {old.release}", f"in {new.release}"))
        if how is not None:
            moved.setdefault(f"{name.partition('/')[0].rstrip(']')}]", how)
    return MovedNumbers(len(both), moved)


def _is_computed(case: Mapping[str, Any]) -> bool:
    """Tell whether a case has a result other than an exception."""
    value = case.get("value")
    return value is not None and not (value[0] == "d" and "raises" in dict(map(tuple, value[1])))


def _compute(found: subject.Subject, source: Source, python: str) -> dict[str, Any]:
    """Return the cases of the vendored modules, by name."""
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        results = parity.run_sides(found, source, python, Path(folder), ("upstream",))["upstream"]["results"]
    vendored = {file.upstream for file in found.vendored}
    return {name: case for name, case in results.items() if case["module"] in vendored}
