"""Options of programs, however these read their command line: Python, run up to the trainer, is the judge."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from extractor.importers.runs.reading import read_run
from tests.importers.under_python import BASE, flat, handed, project, stated

# Each declares, in its own way, what `train` sets.
TRAINS = """
import os, sys
import verl.trainer.config as of_verl
from hydra import compose, initialize_config_dir
from verl.trainer.main_ppo import run_ppo

def train(data, epochs, lr, name, fixed, seed=None):
    with initialize_config_dir(os.path.dirname(of_verl.__file__), version_base=None):
        config = compose("ppo_trainer", overrides=[f"trainer.total_epochs={epochs}"])
    config.actor_rollout_ref.actor.optim.lr = lr
    config.data.train_files = data
    config.trainer.project_name = name
    config.algorithm.adv_estimator = "grpo" if fixed else "gae"
    config.data.seed = seed
    run_ppo(config)
"""
ARGPARSE = f"""{TRAINS}
import argparse
parser = argparse.ArgumentParser(description="trains by 100%")
parser.add_argument("data")
parser.add_argument("-e", "--epochs", type=int, default=1)
parser.add_argument("--lr", "--learning-rate", type=float, default=1e-5)
parser.add_argument("-n", "--name", default="n")
group = parser.add_mutually_exclusive_group()
group.add_argument("--fixed", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--seed", type=lambda text: int(text) + 1)
args = parser.parse_args()
train(args.data, args.epochs, args.lr, args.name, args.fixed, args.seed)
"""
COMMANDS = f"""{TRAINS}
import argparse
def evaluate(args):
    print(args.data)
def start(args):
    train(args.data, args.epochs, args.lr, args.name, args.fixed, args.seed)
common = argparse.ArgumentParser(add_help=False)
common.add_argument("--name", default="n")
parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command", required=True)
first = commands.add_parser("train", parents=[common])
first.add_argument("data")
first.add_argument("-e", "--epochs", type=int, default=2)
first.add_argument("--lr", type=float, default=1e-5)
first.add_argument("--fixed", action="store_false")
first.add_argument("--seed", type=int, nargs="?", const=5)
first.set_defaults(func=start)
second = commands.add_parser("eval", parents=[common])
second.add_argument("data")
second.add_argument("--epochs", type=int, default=9)
second.set_defaults(func=evaluate)
args = parser.parse_args()
args.func(args)
"""
CLICK = f"""{TRAINS}
import click
@click.command()
@click.argument("data")
@click.option("--epochs", "-e", type=int, default=1)
@click.option("--lr", default=1e-5, show_default=True)
@click.option("--run-name", "-n", "name", default="n")
@click.option("--fixed/--free", default=True)
@click.option("--seed", type=int)
def main(data, epochs, lr, name, fixed, seed):
    train(data, epochs, lr, name, fixed, seed)
if __name__ == "__main__":
    main()
"""
CLICK_GROUP = f"""{TRAINS}
import click
@click.group()
def cli():
    pass
@cli.command("eval")
@click.argument("data")
@click.option("--epochs", default=9)
def evaluate(data, epochs):
    train(data, epochs, 1.0, "evaluated", False)
@cli.command("train")
@click.argument("data")
@click.option("--epochs", "-e", default=1)
@click.option("--lr", default=1e-5)
@click.option("--name", "-n", default="n")
@click.option("--fixed", is_flag=True)
@click.option("--seed", default=None, type=int)
def of_group(**options):
    train(**options)
if __name__ == "__main__":
    cli()
"""
TYPER = f"""{TRAINS}
import typer
from typing import Annotated, Optional
app = typer.Typer()
@app.command()
def start(
    data: str,
    epochs: Annotated[int, typer.Option("--epochs", "-e")] = 1,
    lr: float = 1e-5,
    name: str = typer.Option("n", "--run-name", "-n", help="of the run"),
    fixed: bool = True,
    seed: Optional[int] = None,
):
    train(data, epochs, lr, name, fixed, seed)
if __name__ == "__main__":
    app()
"""
TYPER_RUN = f"""{TRAINS}
import typer
def start(data: str = typer.Argument(...), epochs: int = 1, lr: float = 1e-5, name: str = "n", fixed: bool = False):
    train(data, epochs, lr, name, fixed)
typer.run(start)
"""
CASES = {
    "argparse: short flags": (ARGPARSE, "-e 3 -nq x.parquet"),
    "argparse: flags that stand together with their value, a beginning of one, the opposite of one": (
        ARGPARSE,
        "x.parquet --learning=5e-6 --no-fixed --seed 3",
    ),
    "argparse: behind an option's value comes a place": (ARGPARSE, "--fixed x.parquet --name 007"),
    "commands of argparse": (COMMANDS, "train x.parquet --lr 5e-6 --fixed --name q"),
    "commands of argparse: an option without its value": (COMMANDS, "train x.parquet -e 4 --seed"),
    "click": (CLICK, "x.parquet -e 3 --free --run-name q"),
    "click: defaults": (CLICK, "--seed 4 x.parquet"),
    "a group of click's": (CLICK_GROUP, "train x.parquet -e 3 --fixed"),
    "typer": (TYPER, "x.parquet -e 3 --no-fixed -n q --seed 4"),
    "typer: defaults": (TYPER, "x.parquet"),
    "typer, a function": (TYPER_RUN, "--lr 5e-6 --fixed x.parquet"),
}


@pytest.mark.parametrize(("text", "words"), CASES.values(), ids=CASES)
def test_a_program_gets_what_its_command_line_says(tmp_path: Path, text: str, words: str) -> None:
    program = project(tmp_path, text)
    script = tmp_path / "start.sh"
    script.write_text(f"python3 start.py {words}\n")
    run = read_run(script, {}, {})
    assert {**flat(BASE), **stated(run)} == flat(handed(program, *shlex.split(words)))
    assert run.remarks == ()


@pytest.mark.parametrize(
    ("words", "lr", "epochs"),
    [("x.parquet --lr=5e-6 --epochs 3", 5e-6, 3), ("x.parquet 3 5e-6", 5e-6, 3), ("--data x.parquet", 1e-5, 1)],
)
def test_fire_gives_arguments_by_place_and_by_name(tmp_path: Path, words: str, lr: float, epochs: int) -> None:
    body = (
        "def start(data, epochs=1, lr=1e-5, fixed=False):\n    train(data, epochs, lr, 'n', fixed)\nfire.Fire(start)\n"
    )
    project(tmp_path, f"{TRAINS}\nimport fire\n{body}")
    script = tmp_path / "start.sh"
    script.write_text(f"python3 start.py {words}\n")
    found = stated(read_run(script, {}, {}))
    assert found["data.train_files"] == "x.parquet"
    assert found["actor_rollout_ref.actor.optim.lr"] == lr
    assert found["trainer.total_epochs"] == epochs


@pytest.mark.parametrize("text", [ARGPARSE, CLICK, TYPER, TYPER_RUN], ids=["argparse", "click", "typer", "typer.run"])
def test_an_option_that_a_program_needs_is_asked_for_by_its_name(tmp_path: Path, text: str) -> None:
    program = project(tmp_path, text)
    (remark,) = [item for item in read_run(program, {}, {}).remarks if item.key == "data.train_files"]
    assert "--set data=" in remark.why
    run = read_run(program, {"data": "x.parquet"}, {})
    assert stated(run)["data.train_files"] == "x.parquet"
    assert not [item for item in run.remarks if item.key != "data.seed"]


def test_a_command_of_a_larger_program_has_its_options_in_a_file_of_its_own(tmp_path: Path) -> None:
    text = CLICK.replace("import click\n", "import click\nfrom tool.cli import app\n")
    text = text.replace("@click.command()", "@app.command()").partition("if __name__")[0]
    program = project(tmp_path, text)
    assert stated(read_run(program, {"data": "x.parquet"}, {}))["actor_rollout_ref.actor.optim.lr"] == 1e-5


@pytest.mark.parametrize("words", ["-", "--", "--lr", "-e", "x y z", "--no-such", "--lr=", "-e=x"])
def test_words_that_do_not_fit_stop_nothing(tmp_path: Path, words: str) -> None:
    for name, text in {"argparse": ARGPARSE, "click": CLICK, "typer": TYPER}.items():
        folder = tmp_path / name
        folder.mkdir()
        project(folder, text)
        script = folder / "start.sh"
        script.write_text(f"python3 start.py {words}\n")
        assert read_run(script, {}, {}).overrides


@pytest.mark.parametrize("ends", ["main()", "sys.exit(main())", "raise SystemExit(main())"])
def test_a_program_whose_modules_know_the_trainer(tmp_path: Path, ends: str) -> None:
    """The program itself names none of verl's: it hands its command on to modules, which hand it on."""
    text = f"import sys\nfrom tool.cli import main\nif __name__ == '__main__':\n    {ends}\n"
    program = project(tmp_path, text)
    cli = COMMANDS.replace(TRAINS, "from tool.inner.train import train\n").replace(
        "\nargs =", "\ndef main():\n  args ="
    )
    cli = cli.replace("\nargs.func", "\n  args.func")
    for name, content in {"__init__": "", "cli": cli, "inner/__init__": "", "inner/train": TRAINS}.items():
        file = tmp_path / "tool" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    script = tmp_path / "start.sh"
    script.write_text("python3 start.py train x.parquet --lr 5e-6 -e 3\n")
    found = {**flat(BASE), **stated(read_run(script, {}, {}))}
    assert found == flat(handed(program, "train", "x.parquet", "--lr", "5e-6", "-e", "3"))
