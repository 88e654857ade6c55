"""A teacher on the real vLLM server, on a CPU, beside the same one in the trainer's process."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from extractor.values import releases
from tests.project.running import SMALL, environment, python
from tests.project.support import PACKAGE, Configuration, make
from tests.releases import ALL, NEWEST

PYTHON = os.environ.get("VEXTRACT_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.skipif(PYTHON is None, reason="needs vLLM, here or in the Python that VEXTRACT_VLLM_PYTHON names"),
]

DRIVER = Path(__file__).with_name("teacher_driver.py")
OLDER = [release for release in ALL[:-1] if "distill" in releases.load(release).algorithms]
CACHE_BYTES = 2**27
MOST_NAMED = 8
LOSS = "distillation.distillation_loss"


@dataclass(frozen=True)
class Teacher:
    """A model's directory, and the server that has it."""

    directory: Path
    url: str
    process: subprocess.Popen[bytes]


def made(release: str, directory: Path) -> Path:
    return make(Configuration(release, algorithm="distill", features=("distillation",)), directory / release).root


def _is_free(port: int) -> bool:
    """Tell whether nobody has a port. Of those below 32768 none is given out while the server starts."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture(scope="module")
def teacher(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Teacher]:
    """The server as a user starts it: no settings of this project's, but for what a small machine needs."""
    folder = tmp_path_factory.mktemp("teacher")
    directory = folder / "model"
    done = python(made(NEWEST[-1], folder), str(DRIVER), PACKAGE, "model", str(directory))
    assert done.returncode == 0, done.stderr[-3000:]
    port = next(filter(_is_free, random.Random(os.getpid()).sample(range(20000, 32000), 100)))
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory)]
    options = ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    options += [
        "--max-model-len",
        "128",
        "--max-logprobs",
        str(MOST_NAMED),
        "--kv-cache-memory-bytes",
        str(CACHE_BYTES),
    ]
    variables = {**environment(folder), "TORCHDYNAMO_DISABLE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, *options], env=variables, stdout=log, stderr=log, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process, folder / "log")
        yield Teacher(directory, url, process)
    finally:
        process.terminate()
        process.wait(30)
        with contextlib.suppress(ProcessLookupError):  # a server that was killed leaves its engine
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text(errors="replace")[-4000:])


@pytest.mark.parametrize(
    ("release", "every"),
    [*(pytest.param(release, 1, marks=pytest.mark.thorough) for release in (*OLDER, NEWEST[-1])), (NEWEST[-1], 3)],
)
@pytest.mark.thorough
def test_every_loss_is_that_of_the_teacher_in_the_process(
    teacher: Teacher, tmp_path: Path, release: str, every: int
) -> None:
    root, out = made(release, tmp_path), tmp_path / "found.json"
    done = python(root, str(DRIVER), PACKAGE, "compare", str(out), str(teacher.directory), str(every), teacher.url)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(out.read_text())
    assert {name.partition(" ")[0] for name in found} >= {"k1", "k2", "k3", "abs", "forward_kl_topk"}
    for name, apart in found.items():
        assert apart["places"] > 8, name
        assert apart["log_probs"] < 1e-4, (name, apart)
        assert apart["loss"] < 1e-4, (name, apart)
        assert apart["tokens"] == 0, (name, apart)
        assert apart["gradients"] < 1e-4 * max(1.0, apart["gradient"]), (name, apart)


REFUSED = {
    "more tokens than it names": (
        (f"{LOSS}.loss_mode=forward_kl_topk", f"{LOSS}.topk=9", f"{LOSS}.use_policy_gradient=false"),
        "start vLLM with --max-logprobs 9",
    ),
    "longer than it takes": (("data.max_response_length=128",), "start it with --max-model-len"),
    "another vocabulary": (("data.env.task=another",), "has another vocabulary than the policy: token"),
}


@pytest.mark.thorough  # the project's own tests refuse the same of a server in the test
@pytest.mark.parametrize("what", REFUSED)
def test_what_it_cannot_say_is_refused_before_training(teacher: Teacher, tmp_path: Path, what: str) -> None:
    root, (settings, message) = made(NEWEST[-1], tmp_path), REFUSED[what]
    url = f"local.teacher_server.url={teacher.url}"
    done = python(root, "main.py", *SMALL, "preset=distill", url, *settings)
    assert done.returncode == 2, done.stdout[-2000:] + done.stderr[-3000:]
    assert message in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.thorough
def test_each_of_two_processes_asks_about_its_own_responses(teacher: Teacher, tmp_path: Path) -> None:
    root = made(NEWEST[-1], tmp_path)
    path = f"distillation.teacher_models.teacher_model.model_path={teacher.directory}"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "main.py", *SMALL)
    losses = []
    for place in (path, f"local.teacher_server.url={teacher.url}"):
        run = tmp_path / f"run-{len(losses)}"
        done = python(root, *launcher, "preset=distill", place, f"trainer.default_local_dir={run}")
        assert done.returncode == 0, done.stderr[-3000:]
        rows = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        losses.append([json.loads(row)["actor/distillation/loss"] for row in rows])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert len(losses[0]) == 2


@pytest.mark.thorough
def test_a_server_that_is_killed_ends_the_run_with_a_checkpoint(teacher: Teacher, tmp_path: Path) -> None:
    """The last of the tests of this server."""
    root, run = made(NEWEST[-1], tmp_path), tmp_path / "run"
    settings = ("preset=distill", f"local.teacher_server.url={teacher.url}", f"trainer.default_local_dir={run}")
    command = [sys.executable, "main.py", *SMALL, *settings, "trainer.total_training_steps=10000"]
    output = tmp_path / "output"
    with output.open("wb") as file:
        started = subprocess.Popen(command, cwd=root, env=environment(root), stdout=file, stderr=subprocess.STDOUT)
    rows = run / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (rows.exists() and len(rows.read_text().splitlines()) >= 2) and time.monotonic() < deadline:
        time.sleep(0.2)
    teacher.process.kill()
    code, text = started.wait(120), output.read_text(errors="replace")
    assert code == 1, text[-3000:]
    assert teacher.url in text
    assert "check that the server of local.teacher_server.url is up" in text
    assert list(run.glob("global_step_*"))
