"""Running a generated project as its owner would, with sizes that take seconds."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from extractor.values import resources
from tests.project.forked import Forked, run
from tests.project.support import PACKAGE

SMALL = (
    "data.train_batch_size=8",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.logger=[console]",
)


def environment(root: Path) -> dict[str, str]:
    """The environment of a project's processes: no GPU, no network, one thread, only the project itself on the path."""
    settings = {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": "",
        "HF_HOME": str(root / ".huggingface"),
        "NO_COLOR": "1",
        "PYTEST_ADDOPTS": "",
    }
    return {**os.environ, **settings}


def python(
    root: Path, *arguments: str, stdin: str = "", timeout: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a project, with some variables of the environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={**environment(root), **variables},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def forked(root: Path, *arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script, a module (`-m`) or code (`-c`) in a project: `python`, with the libraries imported already."""
    return run(list(arguments), cwd=root, env={**environment(root), **variables}, stdin=stdin, timeout=300)


def check_forked(root: Path, *arguments: str, code: int = 0, **given: str) -> subprocess.CompletedProcess[str]:
    """Run as `forked` does, and check the exit code."""
    return _checked(forked(root, *arguments, **given), code)


def check_python(root: Path, *arguments: str, code: int = 0, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run as `python` does, and check the exit code."""
    return _checked(python(root, *arguments, **given), code)


def _checked(done: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def started(root: Path, output: Path, *arguments: str, stdin: Path = Path(os.devnull), **variables: str) -> Forked:
    """Start what `forked` runs; stdout and stderr go to a file, which is made anew."""
    output.unlink(missing_ok=True)
    return Forked(arguments, cwd=root, env={**environment(root), **variables}, files=[stdin, output, output])


def answer_of(root: Path, program: str, *, start: Callable[..., subprocess.CompletedProcess[str]] = forked) -> Any:
    """Run a script in a project; return the last line that it prints, as JSON."""
    (root / "script.py").write_text(program, encoding="utf-8")
    done = start(root, "script.py")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def inside(root: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the code of `vextract COMMAND` in a project, as `cli/runs.py` does."""
    script = resources.find_templates() / "command" / "in_project.py"
    return forked(root, str(script), str(root), PACKAGE, command, *arguments)


def overrides(*changed: str) -> list[str]:
    """SMALL, with some settings changed or added."""
    chosen = {setting.partition("=")[0]: setting for setting in (*SMALL, *changed)}
    return list(chosen.values())


def train(
    root: Path, *changed: str, start: Callable[..., subprocess.CompletedProcess[str]] = forked
) -> list[dict[str, Any]]:
    """`python main.py` with SMALL and some changes; the metrics, a dictionary per step."""
    done = start(root, "main.py", *overrides(*changed))
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = root.glob("checkpoints/*/*")
    return metrics_of(run)


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The metrics in the directory of a run, a dictionary per step."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
