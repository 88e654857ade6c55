"""Find a project's Python and run the driver with it."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from extractor.values.errors import CheckFailed
from extractor.values.shell import quote_for_shell

DRIVER = Path(__file__).parent / "driver"
_NOT_PASSED_ON = ("VERL_", "PYTHON", "RAY_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")


def choose(project: Path, python: str | None) -> str:
    """Choose the named interpreter, else that of the first environment found.

    They are looked for in the project (as `make setup` and uv make them), then among what is active, then here.

    Raises:
        CheckFailed: it has no torch, or there is none that has.
    """
    setup = f"cd {quote_for_shell(project)} && make setup"
    if python is not None:
        # The driver runs in a directory of its own; links stay, since an environment's Python is known by its place.
        named = os.path.abspath(python) if os.path.dirname(python) else python  # noqa: PTH100, PTH120
        return _require_torch(named, f"install the project for it, or name another with --python: {setup}")
    for name in (os.environ.get("UV_PROJECT_ENVIRONMENT", ""), ".venv"):
        own = _find_python(project / name) if name else None
        if own is not None:
            return _require_torch(own, f"install the project into it: {setup}")
    for prefix in (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX")):
        active = _find_python(Path(prefix)) if prefix else None
        if active is not None and not _explain_missing_torch(active):
            return active
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    raise CheckFailed(
        "no Python that has the project's requirements: it has no .venv, and no environment with torch is active",
        hint=f"make one: {setup}; or name a Python that has them with --python",
    )


def _find_python(folder: Path) -> str | None:
    """Return an environment's Python, even if a broken link, or None."""
    path = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return str(path) if os.path.lexists(path) else None


def _require_torch(python: str, hint: str) -> str:
    wrong = _explain_missing_torch(python)
    if wrong:
        raise CheckFailed(f"{python}: {wrong}", hint=hint)
    return python


def _explain_missing_torch(python: str) -> str:
    """Explain why a Python lacks torch; empty if it has it."""
    question = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('torch') else 3)"
    try:
        # Not where the command runs: a directory called torch may lie there.
        asked = subprocess.run(
            [python, "-c", question], cwd=DRIVER, env=_select_passed_on(), capture_output=True, check=False
        )
    except OSError as error:
        return f"cannot be started: {error.strerror or error}"
    return "does not have torch" if asked.returncode else ""


def run_jobs(
    python: str, script: str, jobs: Mapping[str, Mapping[str, Any]], folder: Path, timeout: float
) -> dict[str, dict[str, Any]]:
    """Run jobs of the driver side by side, each in a folder of its own; return their results by name.

    Args:
        script: "imports", "parity" or "methods".
        jobs: By what is run, as an error says it: "upstream's own code".
        timeout: Seconds for each.

    Raises:
        CheckFailed: one died, or took too long.
    """
    with ThreadPoolExecutor() as pool:
        results = pool.map(lambda name: _run_job(python, script, name, jobs[name], folder, timeout), jobs)
        return dict(zip(jobs, results, strict=True))


def _run_job(
    python: str, script: str, name: str, job: Mapping[str, Any], folder: Path, timeout: float
) -> dict[str, Any]:
    scratch = Path(tempfile.mkdtemp(dir=folder)).resolve()
    files = {kind: scratch / kind for kind in ("job.json", "result.json", "log.txt")}
    files["job.json"].write_text(json.dumps({**job, "scratch": str(scratch)}), encoding="utf-8")
    try:
        with files["log.txt"].open("wb") as output:
            done = subprocess.run(
                [python, str(DRIVER), script, str(files["job.json"]), str(files["result.json"])],
                cwd=scratch,
                env=make_environment(scratch),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        result: dict[str, Any] = json.loads(files["result.json"].read_text(encoding="utf-8"))
    except subprocess.TimeoutExpired:
        problem = f"running {name} took longer than {timeout:.0f} s"
    except (OSError, ValueError):
        problem = f"running {name} ended with exit code {done.returncode} and without a result"
    else:
        return result
    raise CheckFailed(problem, hint=read_tail(files["log.txt"]))


def read_tail(log: Path) -> str:
    """Return the end of what a job printed."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])


def _select_passed_on() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}


def make_environment(folder: Path) -> dict[str, str]:
    """Return the driver's environment: one thread, no GPU, no network."""
    return {
        **_select_passed_on(),
        **dict.fromkeys(("HF_HOME", "HF_DATASETS_CACHE", "XDG_CACHE_HOME"), str(folder / "cache")),
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",  # what is shown of a job that failed is its error
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_COMPILE_DISABLE": "1",
        # Up to 0.7.0 what upstream finds by itself is a module and no device: fix "grpo-vectorized-device".
        "VERL_FORCE_DEVICE": "cpu",
    }
