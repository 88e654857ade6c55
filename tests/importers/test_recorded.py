"""What a run has left behind, where nobody has its script: its log, what a tracker keeps, how an editor launches it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from textwrap import dedent
from typing import Any

import pytest
import yaml

from extractor.importers.runs.reading import read_run
from extractor.importers.runs.run import Run
from extractor.values.errors import UsageError

CONFIG: dict[str, Any] = {
    "actor_rollout_ref": {"actor": {"clip_ratio": 0.2, "optim": {"lr": 1e-06}}, "model": {"path": "a/b"}},
    "algorithm": {"adv_estimator": "grpo", "gamma": 1.0},
    "data": {
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %} " * 4,
        "train_files": ["a.parquet", "b.parquet"],
        "max_prompt_length": None,
    },
    "trainer": {"n_gpus_per_node": 8, "val_only": False},
}
WORDS = ["algorithm.adv_estimator=grpo", "data.train_files=[a.parquet, b.parquet]", "+trainer.n_gpus_per_node=8"]
COMMAND = f"+ python3 -m verl.trainer.main_ppo {WORDS[0]} '{WORDS[1]}' {WORDS[2]}\n"
PROCESS, ANOTHER = "\x1b[36m(TaskRunner pid=75125)\x1b[0m ", "\x1b[33m(raylet, ip=10.0.0.1)\x1b[0m "
WARNING = ["/usr/lib/vllm/connections.py:8: RuntimeWarning: Failed to read commit hash:", "  from vllm import a"]
FAILED = f"Error executing job with overrides: {WORDS}\nTraceback (most recent call last):\n"


def by_ray(text: str) -> str:
    """Return a text as Ray shows what a process prints: with its name, and lines of others in between."""
    lines = [f"{PROCESS}{line}" for line in text.splitlines()]
    lines[4:4] = [f"{PROCESS}{line}" for line in WARNING]
    lines.insert(2, f"{ANOTHER}some objects were spilled to disk")
    return "\n".join(lines) + "\n"


def read(folder: Path, name: str, text: str, given: Mapping[str, str] | None = None) -> Run:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return read_run(file, given or {}, {})


def keys(run: Run) -> list[tuple[str, str]]:
    return [(item.mark, item.key) for item in run.overrides]


STATED = [("", "algorithm.adv_estimator"), ("", "data.train_files"), ("+", "trainer.n_gpus_per_node")]


@pytest.mark.parametrize("name", ["nohup.out", "train.log", "slurm-17.txt", "log"])
def test_a_log_has_the_config_and_the_command(tmp_path: Path, name: str) -> None:
    dump = pformat(CONFIG, width=80)
    assert dump.count("\n") >= 10
    run = read(tmp_path, name, f"++ pwd\n{COMMAND}2025-04-03 INFO worker.py\n{by_ray(dump)}{PROCESS}step:1 - a:2\n")
    assert keys(run) == STATED
    assert (run.defaults, run.is_whole, run.program) == (CONFIG, True, "verl.trainer.main_ppo")
    assert run.notes == ()


def test_a_log_of_another_program_says_so(tmp_path: Path) -> None:
    command = COMMAND.replace("-m verl.trainer.main_ppo", "recipe/own/main_own.py")
    run = read(tmp_path, "a.log", f"{command}{by_ray(pformat(CONFIG))}")
    assert (keys(run), run.program) == (STATED, "recipe/own/main_own.py")
    assert [note.partition(":")[2] for note in run.notes] == [
        " recipe/own/main_own.py is another trainer than main_ppo: what only it does is not carried over"
    ]


@pytest.mark.parametrize("name", ["0: ", "config = "])
def test_a_log_may_name_processes_in_another_way(tmp_path: Path, name: str) -> None:
    text = "\n".join(f"{name}{line}" for line in pformat(CONFIG).splitlines())
    text = text if name == "0: " else f"{name}{CONFIG}"
    assert read(tmp_path, "a.log", f"step: {{'a': 1}}\n{text}\n").resolved == CONFIG


@pytest.mark.parametrize(
    "time",
    [
        "2025-04-03T02:56:{:02}.123456789Z ",
        "[2025/04/03 02:56:{:02}] ",
        "2025-04-03 02:56:{:02},123 ",
        "2025-04-03 02:56:{:02}+08:00 ",
        "Apr  3 02:56:{:02} ",
    ],
)
def test_a_log_may_have_the_time_before_each_line(tmp_path: Path, time: str) -> None:
    lines = f"{COMMAND}{by_ray(pformat(CONFIG, width=80))}".splitlines()
    run = read(tmp_path, "a.log", "".join(f"{time.format(at)}{line}\n" for at, line in enumerate(lines)))
    assert (keys(run), run.defaults, run.program) == (STATED, CONFIG, "verl.trainer.main_ppo")


def test_what_a_log_sets_is_also_in_the_error_that_hydra_prints(tmp_path: Path) -> None:
    run = read(tmp_path, "a.log", f"{pformat(CONFIG)}\n{FAILED}")
    assert (keys(run), run.defaults) == (STATED, CONFIG)


def test_a_log_without_a_command_is_a_resolved_config(tmp_path: Path) -> None:
    run = read(tmp_path, "a.log", by_ray(pformat(CONFIG)))
    assert (run.resolved, run.overrides, run.is_whole) == (CONFIG, (), False)


def test_of_several_runs_of_a_log_the_last_whose_config_is_there_counts(tmp_path: Path) -> None:
    other = {**CONFIG, "algorithm": {"adv_estimator": "gae"}}
    first = f"{COMMAND.replace('grpo', 'gae')}{by_ray(pformat(other))}"
    last = COMMAND.replace("grpo", "rloo")  # it ended before it could print its own
    run = read(
        tmp_path, "nohup.out", f"{first}{COMMAND}{by_ray(pformat(CONFIG))}{last}{FAILED.replace('grpo', 'rloo')}"
    )
    assert (run.defaults, run.overrides[0].value) == (CONFIG, "grpo")
    line = first.count("\n") + 2
    assert run.notes == (f"2 configs: the last, in line {line}, is the one that is taken",)


def test_a_log_may_be_large_and_have_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes((COMMAND + by_ray(pformat(CONFIG))).encode() + b"\xff\xfe response\n" * 300_000)
    assert read_run(file, {}, {}).defaults == CONFIG


def test_a_log_of_easyr1_has_its_config_as_json(tmp_path: Path) -> None:
    config = {
        "data": {"train_files": "some/rows@train", "max_prompt_length": 77},
        "algorithm": {"adv_estimator": "grpo"},
        "worker": {"actor": {"model": {"model_path": "a/b"}}, "rollout": {"n": 5}},
        "trainer": {"total_epochs": 3},
    }
    text = by_ray(json.dumps(config, indent=2)).replace("TaskRunner", "Runner")
    run = read(tmp_path, "a.log", text)
    values = {item.key: item.value for item in run.overrides}
    assert (values["data.max_prompt_length"], values["actor_rollout_ref.rollout.n"]) == (77, 5)


@pytest.mark.parametrize("text", ["", "step:1 - a:2\n", "{'data': {'a': 1}}\n", f"{pformat(CONFIG)[:-30]}\n"])
def test_a_log_that_has_no_config_starts_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"it starts no main_ppo|empty"):
        read(tmp_path, "a.log", text)


def wrapped(config: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {key: {**more, "value": value} for key, value in config.items()}


WANDB = "wandb/run-20250403_025642-wmqmvslz"


def test_what_wandb_keeps(tmp_path: Path) -> None:
    own = {"_wandb": {"value": {"cli_version": "0.26.1"}}}
    run = read(tmp_path, f"{WANDB}/files/config.yaml", yaml.safe_dump({**own, **wrapped(CONFIG)}))
    assert run.resolved == CONFIG
    assert read_run(tmp_path / WANDB, {}, {}).resolved == CONFIG
    assert read_run(tmp_path / "wandb", {}, {}).resolved == CONFIG  # the one run that is there
    of_ray = {"args": ["--node-id=1"], "program": "ray/_private/workers/default_worker.py"}
    beside = read(tmp_path, f"{WANDB}/files/wandb-metadata.json", json.dumps(of_ray))
    assert beside.resolved == CONFIG
    downloaded = read(tmp_path, "config.json", json.dumps(CONFIG))
    assert downloaded.resolved == CONFIG


def test_what_wandb_keeps_of_a_run_that_was_offline(tmp_path: Path) -> None:
    folder = tmp_path / "wandb/offline-run-20250403_025642-wmqmvslz"
    log = f"2025 INFO Starting backend\nconfig: {{}}\nconfig: {CONFIG | {'_wandb': {}}!r}\nmore\n"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs/debug.log").write_text(log)
    assert read_run(folder, {}, {}).resolved == CONFIG


def test_of_several_runs_of_wandb_one_is_named(tmp_path: Path) -> None:
    for name in ("run-1", "run-2"):
        read(tmp_path, f"wandb/{name}/files/config.yaml", yaml.safe_dump(wrapped(CONFIG)))
    with pytest.raises(UsageError, match="the runs run-1, run-2"):
        read_run(tmp_path / "wandb", {}, {})
    (tmp_path / "wandb/latest-run").symlink_to("run-2")
    assert read_run(tmp_path / "wandb", {}, {}).resolved == CONFIG
    shutil.rmtree(tmp_path / "wandb/run-1/files")
    (tmp_path / "wandb/run-2/files/config.yaml").write_text("a: [1\n")
    with pytest.raises(UsageError, match=r"run-2: its config cannot be read"):
        read_run(tmp_path / "wandb", {}, {})


def test_what_wandb_keeps_of_trl(tmp_path: Path) -> None:
    config = {"_name_or_path": "a/b", "beta": 0.01, "num_generations": 4, "hidden_size": 64}
    run = read(tmp_path, f"{WANDB}/files/config.yaml", yaml.safe_dump(wrapped(config)))
    values = {item.key: item.value for item in run.overrides}
    assert (values["actor_rollout_ref.model.path"], values["actor_rollout_ref.rollout.n"]) == ("a/b", 4)
    (tmp_path / "setup.py").write_text("")
    command = {"args": ["--beta", "0.02", "--num_generations", "3"], "program": "train.py", "codePath": "train.py"}
    script = (
        "from trl import GRPOConfig, GRPOTrainer, TrlParser\n(c,) = TrlParser(GRPOConfig).parse_args_and_config()\n"
    )
    (tmp_path / "train.py").write_text(f"{script}GRPOTrainer('m', args=c, reward_funcs=len).train()\n")
    run = read(tmp_path, f"{WANDB}/files/wandb-metadata.json", json.dumps(command))
    values = {item.key: item.value for item in run.overrides}
    assert (values["actor_rollout_ref.actor.kl_loss_coef"], values["actor_rollout_ref.rollout.n"]) == (0.02, 3)


def test_what_swanlab_keeps(tmp_path: Path) -> None:
    text = yaml.safe_dump(wrapped(CONFIG, desc="", sort=0))
    assert read(tmp_path, "swanlog/run-2025-a3b1799d/files/config.yaml", text).resolved == CONFIG
    assert read_run(tmp_path / "swanlog", {}, {}).resolved == CONFIG


def test_what_mlflow_keeps(tmp_path: Path) -> None:
    run = tmp_path / "mlruns/0/2f5c"

    def write(folder: Path, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, Mapping):
                write(folder / name, value)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(str(value))

    write(run / "params", CONFIG)
    (run / "meta.yaml").write_text("run_id: 2f5c\n")
    assert read_run(run, {}, {}).resolved == CONFIG


LAUNCH = """{
    // Use IntelliSense: https://go.microsoft.com/fwlink/?linkid=830387
    "version": "0.2.0",
    "configurations": [
        {"name": "this file", "type": "debugpy", "program": "${file}", "args": ["--verbose"]},
        {
            "name": "small", /* of mine */ "module": "verl.trainer.main_ppo", "cwd": "${workspaceFolder}/train",
            "env": {"A_KEY": "//no comment", "PYTHONPATH": "${workspaceFolder}",},
            "args": ["algorithm.adv_estimator=grpo", "data.train_files=['a, ]', 'b']", "trainer.logger=$A_KEY",],
        },
        {"name": "large", "program": "${workspaceFolder}/own/main_ppo.py",
         "args": "algorithm.adv_estimator=rloo data.train_files='a b'"}
    ],
}
"""


def test_how_vs_code_launches_a_run(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("")
    run = read(tmp_path, ".vscode/launch.json", LAUNCH)
    assert {item.key: item.value for item in run.overrides} == {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": ["a, ]", "b"],
        "trainer.logger": "$A_KEY",
    }
    assert (run.environment["A_KEY"], run.environment["PYTHONPATH"]) == ("//no comment", str(tmp_path))
    assert any("2 configurations: small is the one" in note for note in run.notes)
    other = read(tmp_path, ".vscode/launch.json", LAUNCH, {"configuration": "large"})
    assert (other.overrides[0].value, other.overrides[1].value) == ("rloo", "a b")
    assert not any("configurations" in note for note in other.notes)
    with pytest.raises(UsageError, match="no configuration medium that trains") as caught:
        read(tmp_path, ".vscode/launch.json", LAUNCH, {"configuration": "medium"})
    assert "small, large" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("{}", "no config of verl's trainer"),
        ('{"configurations": []}', "no config of verl's trainer"),
        ('{"configurations": [{"name": "x", "module": "http.server", "args": ["80"]}]}', "it starts no main_ppo"),
    ],
)
def test_json_that_launches_nothing(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(tmp_path, "launch.json", text)


def test_overrides_may_be_a_list_in_json(tmp_path: Path) -> None:
    assert keys(read(tmp_path, "overrides.json", json.dumps(WORDS))) == STATED


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]})


SHELL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n"
    "  data.train_files=$HOME/a.parquet trainer.total_epochs=3"
)


@pytest.mark.parametrize("cell", [f"!PYTHONUNBUFFERED=1 {SHELL}\n", f"%%bash\n{SHELL}\n", f"x = 1\n!{SHELL}\ny = 2\n"])
def test_a_notebook_starts_a_run_by_a_command(tmp_path: Path, cell: str) -> None:
    cells = ["!pip install verl\nimport torch\n", "%env MODEL=a b\n%cd here\n", cell, f"# {SHELL}"]
    (tmp_path / "a.ipynb").write_text(notebook(*cells))
    run = read_run(tmp_path / "a.ipynb", {}, {"HOME": "/home/me"})
    assert {item.key: item.value for item in run.overrides} == {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": "/home/me/a.parquet",
        "trainer.total_epochs": 3,
    }


# Programs that start a run, as people write them.
LAUNCHERS = {
    "a list": """
        import os, sys
        mode = "auto"
        if len(sys.argv) > 1:
            mode = sys.argv[1]
        files = [f"part_{i}.parquet" for i in range(2)]
        command = ["python3", "-B", "-m", "verl.trainer.main_ppo", f"data.train_files={files}"]
        command += ["trainer.total_epochs=3", f"trainer.resume_mode={mode}", "algorithm.adv_estimator=grpo"]
        command.append("" if mode == "auto" else "a.b=1")
        command = [word for word in command if word]
        os.execvp(command[0], command)
        """,
    "options": """
        import argparse, subprocess, sys

        def command_of(args):
            given = {"algorithm.adv_estimator": "grpo", "trainer.total_epochs": args.epochs}
            words = [sys.executable, "-m", "verl.trainer.main_ppo", *(f"{key}={value}" for key, value in given.items())]
            words += ["trainer.resume_mode=auto"]
            words.append(f"data.train_files=['part_0.parquet', '{args.second}']")
            if args.debug:
                words.append("trainer.total_epochs=1")
            return words

        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--epochs", type=int, default=3)
            parser.add_argument("--second", default="part_1.parquet")
            parser.add_argument("--debug", action="store_true")
            subprocess.run(command_of(parser.parse_args()), check=True, env={"A": "1"})

        if __name__ == "__main__":
            main()
        """,
    "a text": '''
        import subprocess
        EPOCHS = 3
        command = f"""cd here; python3 -m verl.trainer.main_ppo \\\\
            algorithm.adv_estimator=grpo trainer.resume_mode=auto \\\\
            data.train_files="['part_0.parquet', 'part_1.parquet']" trainer.total_epochs={EPOCHS}"""
        subprocess.Popen(command, shell=True).wait()
        ''',
    "of a service": """
        import modal
        app = modal.App("training")

        @app.function(gpu="H100")
        def train(*words: str):
            import subprocess
            command = ["python", "-m", "verl.trainer.main_ppo", "algorithm.adv_estimator=grpo"]
            command += ["trainer.total_epochs=3", "trainer.resume_mode=auto"]
            command.append("data.train_files=[part_0.parquet,part_1.parquet]")
            command.extend(words)
            subprocess.check_call(command)
        """,
}


@pytest.mark.parametrize("text", LAUNCHERS.values(), ids=LAUNCHERS)
def test_a_program_starts_a_run_by_a_command(tmp_path: Path, text: str) -> None:
    run = read(tmp_path, "launch.py", dedent(text))
    assert {item.key: item.value for item in run.overrides} == {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": ["part_0.parquet", "part_1.parquet"],
        "trainer.resume_mode": "auto",
        "trainer.total_epochs": 3,
    }


def test_what_only_a_program_knows_is_a_variable_of_its_command(tmp_path: Path) -> None:
    text = """
        import subprocess
        model = ask_the_user()
        subprocess.run(["python", "-m", "verl.trainer.main_ppo", "algorithm.adv_estimator=grpo", "trainer.nnodes=1",
                        f"actor_rollout_ref.model.path={model.path}/v{2 + 1}", f"trainer.total_epochs={epochs(7)}"])
        """
    run = read(tmp_path, "launch.py", dedent(text), {"model_path": "a", "epochs_7": "5"})
    values = {item.key: item.value for item in run.overrides}
    assert (values["actor_rollout_ref.model.path"], values["trainer.total_epochs"]) == ("a/v3", 5)


@pytest.mark.parametrize("text", ["import subprocess\nsubprocess.run(['ls'])\n", "# verl.trainer.main_ppo\nprint(1)\n"])
def test_a_program_that_starts_no_run(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="nor a run by a command"):
        read(tmp_path, "a.py", text)
