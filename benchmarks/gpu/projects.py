"""The projects that are measured, and how their programs are started."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.shapes import Shape

# What each engine's project has to have been made with: `vextract new bench_hf --engine hf --with ...`.
NEEDED = {
    "hf": ("mfu", "lora", "offload", "provenance", "remove_padding", "sharded_checkpoints"),
    "vllm": ("mfu", "lora", "offload", "rollout_correction", "sharded_checkpoints"),
}
STEPS, WARM_UP = 6, 2
MODELS = Path(__file__).with_name("inside") / "make_model.py"


class CaseError(RuntimeError):
    """A program of a case failed, or took too long."""


class LeftOut(Exception):
    """Says that what a case needs is not here."""


def runnable(engine: str) -> bool:
    """Tell whether what an engine needs is installed."""
    return engine == "hf" or importlib.util.find_spec(engine) is not None


def engine_of(root: Path) -> str:
    """Name the rollout engine of the project in a directory."""
    import tomllib

    name: str = tomllib.loads((root / "vextract.lock").read_text(encoding="utf-8"))["options"]["engine"]
    return name


def keys_of(settings: tuple[str, ...]) -> set[str]:
    """Return the keys that settings as of a command line are about."""
    return {setting.lstrip("+").partition("=")[0] for setting in settings}


@dataclass
class Project:
    """A generated project, a model of the shape for it, and what its runs leave.

    Attributes:
        root: its directory.
        shape: of the model.
        scratch: for models and runs.
        seconds: the most that all programs of a case may take together.
        steps: of a run; the first of them warm up.
        logs: keeps what each program says; None: nothing does.
    """

    root: Path
    shape: Shape
    scratch: Path
    seconds: float
    steps: int = STEPS
    logs: Path | None = None
    programs: int = field(default=0, init=False)
    runs: int = field(default=0, init=False)
    _plain: list[dict[str, Any]] | None = field(default=None, init=False)
    _until: float = field(default=0.0, init=False)

    @property
    def package(self) -> str:
        """Name its Python package."""
        (package,) = {path.parent.parent.name for path in self.root.glob("*/data/toy.py")}
        return package

    @property
    def engine(self) -> str:
        """Name its rollout engine."""
        return engine_of(self.root)

    def begin(self) -> None:
        """Start the time of a case."""
        self._until = time.monotonic() + self.seconds

    def python(self, *arguments: str, interrupt_when: Path | None = None) -> tuple[int, str]:
        """Run Python in the project.

        Args:
            arguments: of the interpreter.
            interrupt_when: the program is interrupted, as by Ctrl-C, as soon as this file has a line.

        Returns:
            The exit code, and what it printed to standard output.

        Raises:
            CaseError: the time of the case is over.
        """
        self.programs += 1
        with self._errors().open("w", encoding="utf-8") as errors:
            program = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.root,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            try:
                while interrupt_when is not None and program.poll() is None and time.monotonic() < self._until:
                    if interrupt_when.exists() and interrupt_when.read_text(encoding="utf-8"):
                        program.send_signal(signal.SIGINT)
                        break
                    time.sleep(0.05)
                output, _ = program.communicate(timeout=max(1.0, self._until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise CaseError(f"not done in {self.seconds:.0f} s") from None
            finally:
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGKILL)
                    program.communicate()
        return program.returncode, output

    def must(self, *arguments: str) -> str:
        """Run Python in the project, and return what it printed.

        Raises:
            CaseError: it failed; with the end of what it said.
        """
        code, output = self.python(*arguments)
        if code:
            said = self._errors().read_text(encoding="utf-8").strip().splitlines()[-3:]
            raise CaseError(f"exit code {code}: {' / '.join(said)}")
        return output

    def _errors(self) -> Path:
        """Return where what the last program says is kept."""
        return (self.logs or self.scratch) / f"{self.root.name}-{self.programs:02d}.txt"

    def inside(self, script: str, *settings: str) -> dict[str, Any]:
        """Run a script of inside/ in the project; its last line is an object of figures."""
        path = Path(__file__).with_name("inside") / script
        output = self.must(str(path), self.package, *self.settings(*settings))
        figures: dict[str, Any] = json.loads(output.splitlines()[-1])
        return figures

    def settings(self, *own: str) -> tuple[str, ...]:
        """Return the settings of a run of the shape, which `own` may change."""
        shape = self.shape
        given = {
            "actor_rollout_ref.model.path": str(self.model()),
            "data.train_batch_size": shape.prompts,
            "data.max_prompt_length": 16,
            "data.max_response_length": shape.length,
            "actor_rollout_ref.rollout.n": shape.generations,
            "actor_rollout_ref.actor.ppo_mini_batch_size": shape.prompts,
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": shape.micro_batch,
            "actor_rollout_ref.rollout.val_kwargs.n": 1,
            "trainer.val_before_train": "false",
            "trainer.test_freq": -1,
            "trainer.save_freq": -1,
            "trainer.logger": "[console]",
            "local.save_last": "false",
        }
        if self.engine == "hf":
            given["local.rollout_micro_batch_size"] = shape.responses
        changed = keys_of((*shape.settings, *own))
        kept = (f"{key}={value}" for key, value in given.items() if key not in changed)
        return (*kept, *(one for one in shape.settings if one.partition("=")[0] not in keys_of(own)), *own)

    def train(self, *settings: str) -> list[dict[str, Any]]:
        """Train a model of the shape; returns each step's metrics. All cases share the run without further settings."""
        if settings:
            return self.start(*self.settings(*self.length_of_run(), *settings))
        if self._plain is None:
            self._plain = self.start(*self.settings(*self.length_of_run()))
        return self._plain

    def length_of_run(self) -> tuple[str, ...]:
        """Return the setting of how many steps a run has."""
        return (f"trainer.total_training_steps={self.steps}",)

    def start(self, *settings: str, directory: Path | None = None) -> list[dict[str, Any]]:
        """Run main.py with these settings alone; returns each step's metrics."""
        directory = directory or self.new_directory()
        self.must("main.py", f"trainer.default_local_dir={directory}", *settings)
        lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def new_directory(self) -> Path:
        """Return a directory for a run."""
        self.runs += 1
        return self.scratch / f"{self.root.name}-{self.runs}"

    def model(self) -> Path:
        """Return a model of random weights with the toy task's tokenizer; what it writes means nothing."""
        path = self.scratch / "model"
        if not path.exists():
            self.must(str(MODELS), self.package, str(path), json.dumps(self.shape.model))
        return path
