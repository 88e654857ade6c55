"""Measure the cases and print one table; what fails is a line of it."""

import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.gpu.cases import CASES, Case, Figure
from benchmarks.gpu.projects import STEPS, CaseError, LeftOut, Project
from benchmarks.gpu.shapes import Shape

SECONDS = 500.0


def measure(
    roots: Iterable[Path],
    shape: Shape,
    only: Sequence[str] = (),
    *,
    seconds: float = SECONDS,
    steps: int = STEPS,
    results: Path | None = None,
    logs: Path | None = None,
) -> bool:
    """Print a table of all cases, or of those that are named, each row as soon as it is known.

    Args:
        roots: projects; an engine without one is left out.
        shape: of the model.
        only: names of cases.
        seconds: that a case may take.
        steps: of a run.
        results: a file to append each figure to, as a line of JSON.
        logs: a directory that keeps what each program says.

    Returns:
        Whether no case failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        projects = {project.engine: project for project in _open(roots, shape, Path(folder), seconds, steps, logs)}
        print(f"{_device()}: {shape.responses} responses of {shape.length} tokens in a step\n")
        print("| case | what | figure | against |")
        print("|---|---|---|---|", flush=True)
        failed = []
        for case in CASES:
            if case.engine in projects and (not only or case.name in only):
                start = time.monotonic()
                if not _measure(case, projects[case.engine], results):
                    failed.append(case.name)
                print(f"| {case.name} | all of it | {time.monotonic() - start:.0f} s | |", flush=True)
    print(f"\n{len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    return not failed


def _measure(case: Case, project: Project, results: Path | None) -> bool:
    project.begin()
    try:
        for figure in case.measure(project):
            print(f"| {case.name} | {figure.what} | {_shown(figure)} |", flush=True)
            if results is not None:
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"case": case.name, "device": _device(), **asdict(figure)}) + "\n")
    except LeftOut as reason:
        print(f"| {case.name} | left out | {reason} | |", flush=True)
    except CaseError as error:
        print(f"| {case.name} | not measured | {error} | |", flush=True)
        return False
    return True


def _shown(figure: Figure) -> str:
    number = f"{figure.value:,.0f}" if abs(figure.value) >= 1000 else f"{figure.value:.4g}"
    space = "" if figure.unit.startswith("/") or not figure.unit else " "
    against = f"{figure.against[1]:.2f}x of {figure.against[0]}" if figure.against else ""
    return f"{number}{space}{figure.unit} | {against}"


def _open(
    roots: Iterable[Path], shape: Shape, folder: Path, seconds: float, steps: int, logs: Path | None
) -> list[Project]:
    projects = []
    for number, root in enumerate(roots):
        scratch = folder / str(number)
        scratch.mkdir()
        projects.append(Project(root.resolve(), shape, scratch, seconds, steps, logs))
    return projects


def _device() -> str:
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return f"{name}, torch {torch.__version__}"
