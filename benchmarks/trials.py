"""How far projects come: each is read, checked and trained for two steps, in a fork of a process that has torch.

`python -m benchmarks.trials` reads lines of JSON, a project's directory and whether to train it, and answers each with
how far the project came and why no further. `launch_scripts` starts it.
"""

import importlib
import importlib.util
import io
import json
import os
import re
import runpy
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from benchmarks import stand_ins

# What takes most of the time of a run's imports.
LIBRARIES = (
    "datasets",
    "hydra",
    "pandas",
    "tensordict",
    "torch.distributed.fsdp",
    "torchdata.stateful_dataloader",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.qwen2.modeling_qwen2",
)
STEPS, SECONDS = 2, 150
ATTENTION = "attn_implementation"
# What takes the place of what a run's owner has to supply: a reward function, and an environment.
FUNCTION = """
def compute_score(data_source=None, solution_str=None, ground_truth=None, extra_info=None, solution_strs=None, **more):
    if solution_strs is not None:  # of the manager that scores a batch at once
        return [float("1" in text) for text in solution_strs]
    return float("1" in str(solution_str))
"""
ENVIRONMENT = """

class Answered:
    def reset(self, *, seed=None, options=None):
        return "", {}

    def step(self, action):
        return "", 0.0, True, False, {}


def make_env(settings):
    return Answered()
"""
# What a run says whose dynamic sampling finds nothing to learn from.
NO_SIGNAL = "groups whose"
# What a scorer raises at an answer of a form that it does not know.
OF_AN_ANSWER = re.compile(
    r"the reward raised (?:TypeError|ValueError|KeyError|IndexError|AttributeError|AssertionError|\w*DecodeError)"
)
# What a function says whose server is not here, and a function that asks one.
UNANSWERED = re.compile(r"Invalid URL|MissingSchema|Connection ?(?:Error|refused)|APIConnection|api_key|Max retries")
ASKS = re.compile(r"reward_router_address|aiohttp|requests\.post|OpenAI\(|urlopen")


class Stopped(Exception):
    """Says how far a project came, and why no further."""


def trial(project: Path, train: bool) -> tuple[str, str, list[str]]:
    """Try a project.

    Returns:
        "starts", "trains", or where it stopped; why; and what was supplied that is not with its script.
    """
    os.chdir(project)
    sys.path.insert(0, str(project))
    sys.path_importer_cache.clear()
    supplied: list[str] = []
    where = "load_config"
    try:
        loading = importlib.import_module(f"{project.name}.settings.loading")
        here = ["trainer.logger=[console]"]
        if any(ATTENTION in path.read_text(encoding="utf-8") for path in Path("config/recipe").glob("*.yaml")):
            here.append(f"actor_rollout_ref.model.override_config.{ATTENTION}=sdpa")  # flash-attn is for GPUs
        config = _flat(loading.load_config(Path("config"), here))
        overrides = [*here[1:], *stand_ins.overrides(config, project.parent)]
        overrides += _supply(project, config, supplied)
        read = loading.load_config(Path("config"), overrides)
        where = "paths"
        importlib.import_module(f"{project.name}.settings.setting_checks").check_paths(read)
        where = "hooks"
        importlib.import_module(f"{project.name}.custom")
        where = "check_config"
        importlib.import_module(f"{project.name}.training.assembly").check_config(read, 1)
        where = "files"
        for value in _flat(read).values():
            if isinstance(value, str) and value.endswith(".py") and Path(value).is_file():
                try:
                    _loaded(value)
                except Exception as error:
                    if UNANSWERED.search(str(error)) is None:
                        raise
                    overrides += _scored_by_a_stand_in(config, supplied)
    except BaseException as error:
        return where, f"{type(error).__name__}: {error}", supplied
    if not train:
        return "starts", "", supplied
    steps = 0 if config["trainer.val_only"] else STEPS
    first = _why_it_stopped(project, overrides, steps)
    if UNANSWERED.search(first):
        overrides += _scored_by_a_stand_in(config, supplied)
        first = _why_it_stopped(project, overrides, steps)
    why, answers = first, iter(stand_ins.ANSWERS)
    while OF_AN_ANSWER.search(why) and (answer := next(answers, None)) is not None:
        stand_ins.answered_by(answer, config, project.parent)
        why = _why_it_stopped(project, overrides, steps)
        if not why:
            supplied.append(f"answers such as {answer!r}")
    if NO_SIGNAL in why:
        supplied.append("groups with a signal")  # which answers of a random model are not
        why = first = _why_it_stopped(project, [*overrides, "algorithm.filter_groups.enable=false"], steps)
    return ("steps", first, supplied) if why else ("trains", "", supplied)


def _loaded(path: str) -> None:
    """Import a file that a run names."""
    spec = importlib.util.spec_from_file_location("named_file", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _scored_by_a_stand_in(config: dict[str, Any], supplied: list[str]) -> list[str]:
    """Put a function in the place of one whose server is not here; returns settings for it."""
    supplied.append("server of a reward function")
    overrides = []
    for key in [name for name in config if name.endswith("custom_reward_function.path") and config[name]]:
        Path(config[key]).write_text(FUNCTION, encoding="utf-8")
        overrides.append(f"{key.removesuffix('path')}name=compute_score")
    return overrides


def _supply(project: Path, config: dict[str, Any], supplied: list[str]) -> list[str]:
    """Put something in the place of what is not with the script, and say so; returns settings for it."""
    overrides = []
    if config.get("actor_rollout_ref.rollout.multi_turn.enable") and not config.get("local.env.is_reward"):
        with (project / project.name / "custom/env_wrapper.py").open("a", encoding="utf-8") as file:
            file.write(ENVIRONMENT)
        supplied.append("environment")
    for key in [name for name in config if name.endswith("custom_cls.path") and config[name]]:
        if not Path(config[key]).is_file():
            supplied.append("dataset class")
            overrides.append(f"{key}=null")
    for key in [name for name in config if name.endswith("custom_reward_function.path") and config[name]]:
        path = Path(config[key])
        text = path.read_text(encoding="utf-8") if path.is_file() else None
        if text is None or ASKS.search(text):
            supplied.append("reward function" if text is None else "server of a reward function")
            named = re.escape(str(config[f"{key.removesuffix('path')}name"]))
            awaited = re.search(rf"\basync def {named}\(", text or "")
            path.write_text(FUNCTION.replace("def", "async def") if awaited else FUNCTION, encoding="utf-8")
            overrides.append(f"{key.removesuffix('path')}name=compute_score")
    return overrides


def _why_it_stopped(project: Path, overrides: list[str], steps: int) -> str:
    """Return why a run did not do its steps; nothing where it did."""
    try:
        _train(project, overrides, steps)
    except Stopped as error:
        return str(error)
    return ""


def _train(project: Path, overrides: list[str], steps: int) -> None:
    """Run `main.py` as a shell would.

    Args:
        project: Its directory.
        overrides: Its arguments.
        steps: That it is to do; 0 where the run only validates.

    Raises:
        Stopped: it failed, did fewer steps, or measured nothing.
    """
    said = io.StringIO()
    # In full: a process that the run starts by spawning imports it, and knows only where this one began.
    program = str(project / "main.py")
    sys.argv = [program, *overrides]
    (project.parent / "command.txt").write_text("\n".join(overrides), encoding="utf-8")
    code: Any = 0
    with redirect_stdout(said), redirect_stderr(said):
        try:
            runpy.run_path(program, run_name="__main__")
        except SystemExit as stopped:
            code = stopped.code
        except BaseException:
            traceback.print_exc()
            code = 1
    (project.parent / "output.txt").write_text(said.getvalue(), encoding="utf-8")
    if code:
        raise Stopped(_reason(said.getvalue()))
    found = list((project.parent / "run").rglob("metrics.jsonl"))
    done = [json.loads(line).get("step", 0) for file in found for line in file.read_text().splitlines()]
    if max(done, default=-1) != steps:
        raise Stopped(f"did {max(done, default=0)} steps")


def _reason(said: str) -> str:
    """Return the error out of what a run said."""
    lines = [line for line in said.splitlines() if line.strip()]
    named = [
        line for line in lines if line.startswith("error:") or (line[:1].strip() and "Error" in line.split(":")[0])
    ]
    return (named or lines or ["said nothing"])[-1]


def _flat(config: Any) -> dict[str, Any]:
    from omegaconf import OmegaConf

    def below(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in tree.items():
            if isinstance(value, dict) and value:
                yield from below(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    return dict(below(OmegaConf.to_container(config, resolve=True), ""))


def _ended(child: int) -> bool:
    """Wait for a process as long as a trial may take; tell whether it has ended.

    It has no alarm of its own for that: scorers that limit their time set others in its place.
    """
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    return False


def main() -> None:
    warnings.simplefilter("ignore")
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        project, train = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(str(Path(project).parent / "stderr.txt"), os.O_WRONLY | os.O_CREAT), 2)
            answer = json.dumps(trial(Path(project), train))
            with os.fdopen(writing, "w") as out:
                out.write(answer)
            os._exit(0)
        os.close(writing)
        late = not _ended(child)  # children of its own may still hold the pipe
        os.set_blocking(reading, False)
        try:
            answer = os.read(reading, 1 << 16).decode()
        except BlockingIOError:
            answer = ""
        os.close(reading)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if late:
            os.waitpid(child, 0)
        print(answer or json.dumps(["steps", f"more than {SECONDS} s" if late else "died", []]), flush=True)


if __name__ == "__main__":
    main()
