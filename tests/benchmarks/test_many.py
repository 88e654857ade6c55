"""Many runs at once, on a GPU: which, and what is compared."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu import many
from tests.project.support import Configuration, Made
from tests.releases import NEWEST


def test_runs_of_a_project(made: Callable[[Configuration], Made]) -> None:
    for engine in ("hf", "vllm"):
        project = made(Configuration(NEWEST[-1], engine)).root
        jobs = list(many.jobs(project))
        names = [job.name.removeprefix(f"{project.name} ") for job in jobs]
        assert len({*names}) == len(names)
        assert {"grpo", "rloo", "deterministic"} <= {*names}
        assert ("server lora" in names) == (engine == "vllm")
        assert names.count("grpo float32 cuda") == names.count("grpo float32 cpu") == (engine == "hf")
        for job in jobs:
            keys = [setting.partition("=")[0] for setting in job.settings]
            assert len({*keys}) == len(keys), job.name


def test_a_run_on_a_cpu_and_what_is_far_apart(
    made: Callable[[Configuration], Made],
    tmp_path: Path,
) -> None:
    project = made(Configuration(NEWEST[-1], "hf")).root
    todo = [job for job in many.jobs(project) if job.name.endswith(" grpo float32 cpu")]
    assert many.run(list(todo), tmp_path, 2, 100) == {todo[0].name: 0}
    rows = many._metrics(tmp_path, todo[0].name)
    assert many.differences(rows, rows) == (0.0, "")
    other = [dict(row) for row in rows]
    other[1]["actor/grad_norm"] *= 2
    other[1]["timing_s/step"] *= 3
    assert many.differences(rows, other) == (0.5, "actor/grad_norm")
