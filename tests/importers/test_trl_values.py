"""What a training script of TRL's says by functions, config files and Hydra is worked out, and no more than that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.other_libraries import trl_script
from extractor.importers.runs.python.values import Computed
from extractor.importers.runs.reading import read_run
from extractor.importers.runs.run import Run
from extractor.values.errors import UsageError

MODEL, ACTOR, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def read(folder: Path, text: str, **files: str) -> tuple[Run, dict[str, Any]]:
    """The run of a script in `scripts/` of a repository with these files, and its settings."""
    (folder / ".git").mkdir()
    for name, content in {"scripts/train.py": text, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    run = read_run(folder / "scripts/train.py", {}, {})
    return run, {item.key: item.value for item in run.overrides}


def asked(text: str, **given: Any) -> Any:
    """What a script hands over as `beta`."""
    program = trl_script.read(text, Path("/there/scripts/train.py"), given)
    assert program is not None
    return program.settings["beta"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("f'{NAME}-{1 / 8:.3f}'", "a/b-0.125"),
        ("'out/' + NAME", "out/a/b"),
        ("ROOT / 'models' / 'one'", "/there/models/one"),
        ("str(Path(__file__).resolve().parents[1])", "/there"),
        ("os.path.join(os.path.dirname(os.path.abspath(__file__)), 'x')", "/there/scripts/x"),
        ("[part.strip() for part in 'a, b,'.split(',') if part.strip()]", ["a", "b"]),
        ("-SIZE", -4),
        ("TABLE['rate'] if SIZE > 3 else 0", 0.5),
        ("TABLE.get('no such', [SIZE])", [4]),
        ("TWO", 2),
        ("doubled(SIZE)", 8),
        ("doubled(SIZE) + doubled(1)", 10),
        ("LATER", 1),
        ("ONCE", 1),
        ("Path('a/b.yaml').stem", "b"),
        ("either(1)", 1),
        ("either(0)", 2),
        ("only_if(0) or 7", 7),
        ("changing(3)", 6),
        ("[one + other for one in HUGE for other in HUGE]", [2]),
        ("max(SIZE, int('9')) % 5", 4),
        ("{**TABLE, 'more': 1}['more']", 1),
        ("Made(rate=3).half()", 1.5),
        ("Made().half()", 4.0),
        ("collected", [0, 2, 4]),
        ("counted", 3),
        ("partly['b']", 2),
        ("[*HUGE, *TABLE][-1]", "rate"),
        ("(lambda one, two=2: one * two)(5)", 10),
        ("True and 'x' == ('x' if SIZE else 'y')", True),
    ],
)
def test_what_is_known_without_running(expression: str, value: object) -> None:
    text = (
        "NAME, SIZE = 'a/b', 4\nONE, TWO = 1, 2\nROOT = Path(__file__).parent.parent\nTABLE = {'rate': 1 / 2}\n"
        "LATER = ONCE = 1\nLATER = 1\nif SIZE < 3:\n    ONCE = 7\n    LATER = 8\n"
        "def doubled(count):\n    more = 2 * count\n    return more\n"
        "def either(one):\n    if one:\n        return 1\n    return 2\n"
        "def only_if(one):\n    if one:\n        return 1\n"
        "def changing(one):\n    one = one * 2\n    return one\n"
        "@dataclass\nclass Made:\n    rate: float = 8\n    def half(self):\n        return self.rate / 2\n"
        "HUGE = [1]\ncollected = []\ncounted = 0\n"
        "for index in range(9):\n    if index == 3:\n        break\n"
        "    collected.append(2 * index)\n    counted += 1\n"
        "partly = {'a': 1}\npartly.update({'b': 2} if counted else {'b': 3})\n"
        f"GRPOTrainer(args=GRPOConfig(beta={expression}))\nNAME = 'c'\n"
    )
    assert asked(text) == value


@pytest.mark.parametrize(
    "expression",
    [
        "~1",
        "f'{1:>1000000000}'",
        "'x' * 10",
        "input()",
        "open('/etc/passwd')",
        "open('/etc/passwd').read()",
        "yaml.safe_load(open('/etc/passwd'))",
        "LONG + LONG",
        "either(given())",
        "changing(2)",
        "[one for one in given()]",
        "'${HOME}'",
        "shared",
        "settings['one']",
        "counted",
        "tried",
        "endless(1)",
        "10 ** 10 ** 10",
        "kept[0]",
    ],
)
def test_what_is_not_known_is_not_made_up(expression: str) -> None:
    text = (
        f"LONG = {'x' * 60_000!r}\nHUGE = [1]\nshared = 5\n"
        "def either(one):\n    if one:\n        return 1\n    return 2\n"
        "def changing(one):\n    for item in given():\n        one = one * 2\n    return one\n"
        "def endless(one):\n    return endless(one + 1)\n"
        "settings = {'one': 1}\nsettings[given()] = 2\nkept = [1, 2]\nkept.sort()\n"
        "counted = 0\nwhile given():\n    counted += 1\n"
        "tried = 1\nif given():\n    tried = 2\n"
        f"def work(shared):\n    return GRPOTrainer(args=GRPOConfig(beta={expression}))\nwork(1)\nwork(2)\n"
    )
    assert isinstance(asked(text), Computed)


BY_FILE = """
import yaml
from pathlib import Path
from helpers import load_settings

def load(path):
    with open(path) as file:
        found = yaml.safe_load(file)
    return found

def train(cfg, rate, rows):
    own = cfg["training"]
    config = GRPOConfig(learning_rate=rate, num_generations=own["n"], max_completion_length=own.get("length", 9),
                        temperature=cfg.get("no such", {}).get("t", 0.9), **load_settings("configs/more.json"))
    model = Family3VLForConditionalGeneration.from_pretrained(cfg["model"]["name"])
    if cfg["adapter"]:
        model = PeftModel.from_pretrained(model, cfg["adapter"])
    GRPOTrainer(model=model, args=config, train_dataset=rows, reward_funcs=score)
    model = PeftModel.from_pretrained(model, "what it became")

def score(completions, **more):
    return [0.0] * len(completions)

parser.add_argument("--config", type=Path, default=Path("configs/one.yaml"))
parser.add_argument("--rate", type=float, default=1e-5)
args = parser.parse_args()
train(load(args.config), rate=args.rate, rows=rows())
"""


@pytest.mark.parametrize("adapter", ["''", "some/adapter"])
def test_settings_of_config_files(tmp_path: Path, adapter: str) -> None:
    config = f"training: {{n: 4, length: 64}}\nmodel: {{name: a/b}}\nadapter: {adapter}\n"
    files = {"configs/one.yaml": config, "configs/more.json": '{"beta": 0.1, "num_iterations": 2}'}
    run, found = read(tmp_path, BY_FILE, **files)
    assert {
        f"{MODEL}.path": "a/b",
        f"{ACTOR}.optim.lr": 1e-5,
        f"{ACTOR}.kl_loss_coef": 0.1,
        f"{ACTOR}.ppo_epochs": 2,
        f"{ROLLOUT}.n": 4,
        f"{ROLLOUT}.temperature": 0.9,
        "data.max_response_length": 64,
    }.items() <= found.items()
    to_do = {item.key: item.value for item in run.remarks if item.what == "to do"}
    assert to_do.pop("adapter", "''") == adapter
    assert to_do.keys() == {"dataset_name"}
    read_from = {item.value for item in run.remarks if item.key == "config" and item.what == "renamed"}
    assert read_from == set(files)


def test_settings_of_hydra_s_config_and_of_arguments_that_are_handed_on(tmp_path: Path) -> None:
    script = """
import hydra

def made(**settings):
    known = {key: value for key, value in settings.items() if key in GRPOConfig.__annotations__}
    return GRPOConfig(**known)

@hydra.main(version_base=None, config_path="../conf", config_name="train")
def main(cfg):
    given = dict(beta=cfg.kl, num_generations=cfg.grpo.n)
    config = made(learning_rate=cfg.grpo.rate, **given)
    GRPOTrainer(model=cfg.model, args=config, reward_funcs=score)

def score(completions, **more):
    return [0.0] * len(completions)
"""
    main = "defaults: [grpo: large, _self_]\nkl: 0.2\nmodel: a/b\n"
    run, found = read(tmp_path, script, **{"conf/train.yaml": main, "conf/grpo/large.yaml": "n: 16\nrate: ${..kl}\n"})
    assert (found[f"{MODEL}.path"], found[f"{ROLLOUT}.n"], found[f"{ACTOR}.kl_loss_coef"]) == ("a/b", 16, 0.2)
    assert found[f"{ACTOR}.optim.lr"] == 0.2
    assert not [item for item in run.remarks if item.what == "to do" and "not known" in item.why]
    (tmp_path / "conf/grpo/small.yaml").write_text("n: 2\nrate: 0.5\n")
    command = tmp_path / "run.sh"
    command.write_text("python scripts/train.py grpo=small kl=0.4 +more=1\n")
    found = {item.key: item.value for item in read_run(command, {}, {}).overrides}
    assert (found[f"{ROLLOUT}.n"], found[f"{ACTOR}.kl_loss_coef"], found[f"{ACTOR}.optim.lr"]) == (2, 0.4, 0.5)


def test_how_tokens_are_drawn_by_what_goes_to_generate(tmp_path: Path) -> None:
    script = """
drawn = {"top_p": 0.9, "do_sample": True, "pad_token_id": tokenizer.pad_token_id}
drawn["temperature"] = 1.2
config = GRPOConfig(temperature=0.7, generation_kwargs={**drawn, "top_k": 40, "num_beams": 2, "eos_token_id": [7]})
GRPOTrainer(model="a/b", args=config, reward_funcs=score)
def score(completions, **more):
    return [0.0] * len(completions)
"""
    run, found = read(tmp_path, script)
    drawn = {name: found[f"{ROLLOUT}.{name}"] for name in ("temperature", "top_p", "top_k")}
    assert drawn == {"temperature": 1.2, "top_p": 0.9, "top_k": 40}
    (left,) = (item.value for item in run.remarks if item.key == "generation_kwargs")
    assert left == {"num_beams": 2, "eos_token_id": [7]}


def test_a_model_by_a_function_of_the_repository(tmp_path: Path) -> None:
    script = """
from own import load_base_model
model = load_base_model("some/model", None, for_training=True)
GRPOTrainer(model=model, args=GRPOConfig(), reward_funcs=score)
def score(completions, **more):
    return [0.0] * len(completions)
"""
    assert read(tmp_path, script)[1][f"{MODEL}.path"] == "some/model"


MADE = """
import yaml
from importlib import import_module

def scores(settings, kind):
    def score(completions, **more):
        return [settings["right"] if kind == "plain" else 0.0 for _ in completions]
    return score

def by_name(settings):
    return import_module(settings["module"]).score

def read(path):
    with open(path) as file:
        return yaml.safe_load(file)

@hydra.main(config_path="../conf", config_name="train")
def main(cfg):
    own = read("conf/own.yaml")
    GRPOTrainer(model="a/b", args=GRPOConfig(), reward_funcs=HANDED)
"""


@pytest.mark.parametrize(
    ("handed", "written"),
    [
        (
            "scores(cfg.reward, cfg.reward.kind)",
            ["scores_ = scores(OmegaConf.create({'right': 2.0, 'kind': 'plain'}), 'plain')"],
        ),
        ("scores(own, 'plain')", ["scores_ = scores({'right': 3.0, 'module': 'm'}, 'plain')"]),
        ("by_name(own)", []),
    ],
)
def test_what_functions_are_made_of_is_written_down_with_what_config_files_say(
    tmp_path: Path, handed: str, written: list[str]
) -> None:
    config = "reward: {right: 2.0, kind: plain}\n"
    files = {"conf/train.yaml": config, "conf/own.yaml": "{right: 3.0, module: m}\n"}
    run, _ = read(tmp_path, MADE.replace("HANDED", handed), **files)
    assert (run.scored_by is not None) is bool(written)
    for line in written:
        assert run.scored_by is not None
        assert line in run.scored_by.text


def test_nothing_is_read_that_is_not_the_script_s_own(tmp_path: Path) -> None:
    secret = tmp_path / "secret/train.yaml"
    secret.parent.mkdir()
    secret.write_text("beta: 0.5\n")
    (tmp_path / "repo").mkdir()
    script = f"""
import hydra, yaml
own = yaml.safe_load(open({str(secret)!r}))
linked = yaml.safe_load(open("linked.yaml"))

@hydra.main(config_path="../../secret", config_name="train")
def main(cfg):
    config = GRPOConfig(beta=own["beta"], epsilon=linked["beta"], temperature=cfg.beta)
    GRPOTrainer(model="a/b", args=config, reward_funcs=score)
"""
    (tmp_path / "repo/linked.yaml").symlink_to(secret)
    run, found = read(tmp_path / "repo", script)
    assert {"beta", "epsilon", "temperature"} <= {item.key for item in run.remarks if item.what == "to do"}
    assert not {0.5, "0.5"} & {value for value in found.values() if isinstance(value, (float, str))}


def test_names_are_those_of_the_function_that_reads_them(tmp_path: Path) -> None:
    script = """
import inspect, torch

def trainer(model, rate, **more):
    args = GRPOConfig(learning_rate=rate, num_generations=8 if torch.cuda.is_available() else 2, **more)
    return GRPOTrainer(model=model, args=args, reward_funcs=score)

def score(completions, **more):
    rate = 7
    return [rate for _ in completions]

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=2e-5)
    args = parser.parse_args()
    extra = {"beta": 0.3}
    if "temperature" in inspect.signature(GRPOConfig.__init__).parameters:
        extra["temperature"] = 0.6
    trainer(AutoModelForCausalLM.from_pretrained("a/b"), args.rate, **extra).train()
    AutoModelForCausalLM.from_pretrained("what/it became")

def other():
    extra = {"beta": 0.9}
    args = extra
"""
    run, found = read(tmp_path, script)
    assert {
        f"{MODEL}.path": "a/b",
        f"{ACTOR}.optim.lr": 2e-5,
        f"{ACTOR}.kl_loss_coef": 0.3,
        f"{ROLLOUT}.n": 8,
        f"{ROLLOUT}.temperature": 0.6,
    }.items() <= found.items()
    assert not [item for item in run.remarks if "not known" in item.why]


BY_WAYS = """
import argparse, sys
from dataclasses import dataclass, field
from trl import GRPOConfig, GRPOTrainer
from settings import RATE, Small
from settings.more import *

@dataclass
class OwnConfig(GRPOConfig):
    beta: float = 0.3
    weight_decay: float = field(default=0.2)

def train(steps=100, saved=50, dry_run=False, config=None, **more):
    if dry_run:
        steps = 5
        saved = 5
    if not steps:
        raise ValueError("steps")
    made = OwnConfig(max_steps=steps, save_steps=saved, learning_rate=RATE, max_grad_norm=CLIP, **more)
    try:
        made.temperature = Small.from_args(config).temperature
    except KeyError:
        made.temperature = 7
    made.epsilon = epsilon_of(made.max_steps)
    GRPOTrainer(model="a/b", args=made, reward_funcs=score).train()

def epsilon_of(steps):
    for limit, value in ((10, 0.1), (1000, 0.2), (None, 0.3)):
        if limit is None or steps < limit:
            return value

def score(completions, **more):
    return [0.0] * len(completions)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--no-save", dest="saves", action="store_false")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--n", type=int, default=4)
    args = parser.parse_args()

    def either(said, other):
        if said is not None:
            return said
        return other

    if args.n < 2:
        sys.exit("too few")
    train(either(args.steps, 70), 20 if args.saves else 30, args.dry_run, {"temperature": 0.6}, num_generations=args.n)
"""
SETTINGS = """
RATE = 2 * 1e-5

class Base:
    @classmethod
    def from_args(cls, given):
        return cls(**given)

class Small(Base):
    def __init__(self, temperature=1.0):
        self._temperature = temperature

    @property
    def temperature(self):
        return self._temperature + 0.1
"""


@pytest.mark.parametrize(
    ("said", "steps", "saved", "epsilon"),
    [("", 70, 20, 0.2), ("--steps 2000 --no-save", 2000, 30, 0.3), ("--dry-run --steps 9", 5, 5, 0.1)],
)
def test_a_script_is_followed_the_way_that_it_goes(
    tmp_path: Path, said: str, steps: int, saved: int, epsilon: float
) -> None:
    files = {"settings/__init__.py": SETTINGS, "settings/more.py": "from . import RATE\nCLIP = RATE * 1e4\n"}
    read(tmp_path, BY_WAYS, **files)
    command = tmp_path / "run.sh"
    command.write_text(f"python scripts/train.py {said}\n")
    found = {item.key: item.value for item in read_run(command, {}, {}).overrides}
    assert {
        "trainer.total_training_steps": steps,
        "trainer.save_freq": saved,
        f"{ACTOR}.clip_ratio_low": epsilon,
        f"{ACTOR}.optim.lr": 2e-5,
        f"{ACTOR}.kl_loss_coef": 0.3,
        f"{ACTOR}.optim.weight_decay": 0.2,
        f"{ACTOR}.grad_clip": 0.2,
        f"{ROLLOUT}.n": 4,
        f"{ROLLOUT}.temperature": 0.7,
        f"{MODEL}.path": "a/b",
    }.items() <= found.items()


@pytest.mark.parametrize(
    "text",
    [
        "TRAINS = False\nif TRAINS:\n    GRPOTrainer(args=GRPOConfig(beta=0.1))\n",
        "class Task:\n    def __init__(self, rate=0.1):\n        self.rate = rate\n"
        "    def train(self):\n        return GRPOTrainer(args=GRPOConfig(beta=self.rate))\n",
        "def made(beta=0.1):\n    return GRPOConfig(beta=beta)\n"
        "def train(**more):\n    GRPOTrainer(args=made(**more))\n"
        "def other():\n    train(beta=0.1)\n",
        "import fire\ndef main(beta=0.1):\n    GRPOTrainer(args=GRPOConfig(beta=beta))\nfire.Fire(main)\n",
        "@app.command()\ndef main(beta: float = typer.Option(0.1)):\n"
        "    GRPOTrainer(args=GRPOConfig(beta=beta))\napp()\n",
        "import asyncio\nasync def main():\n    GRPOTrainer(args=GRPOConfig(beta=await one()))\n"
        "async def one():\n    return 0.1\nasyncio.run(main())\n",
    ],
)
def test_a_trainer_that_nothing_here_reaches_is_found(text: str) -> None:
    assert asked(text) == 0.1


def test_what_fire_is_told_goes_to_the_arguments_of_its_function() -> None:
    text = "import fire\ndef main(beta=0.1):\n    GRPOTrainer(args=GRPOConfig(beta=beta))\nfire.Fire(main)\n"
    assert asked(text, beta=0.4) == 0.4


@pytest.mark.parametrize(
    "text",
    [
        "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float)\n"
        "parser.add_argument('-b', '--kl', type=float)\n"
        "parser.add_argument('--quick', action='store_true')\nargs = parser.parse_args()\ntrain(args.lr, args.kl)\n",
        "@click.command()\n@click.option('--lr', default=1.0)\n@click.option('--kl', '-b', default=0.0)\n"
        "@click.option('--quick', is_flag=True)\ndef main(lr, kl, quick):\n    train(lr, kl)\nmain()\n",
        "@app.command()\ndef main(lr: float = 1.0, kl: float = typer.Option(0.0, '--kl', '-b'), quick: bool = False):\n"
        "    train(lr, kl)\napp()\n",
    ],
    ids=["argparse", "click", "typer"],
)
def test_options_of_a_script_s_own_are_no_settings_of_trls(tmp_path: Path, text: str) -> None:
    made = (
        "def train(lr, kl):\n    config = GRPOConfig(learning_rate=lr, beta=kl)\n"
        "    GRPOTrainer(model='a/b', args=config, reward_funcs=score)\n"
    )
    scores = "def score(completions, **more):\n    return [0.0] * len(completions)\n"
    read(tmp_path, f"import argparse, click, typer\n{scores}{made}{text}")
    command = tmp_path / "run.sh"
    command.write_text("python scripts/train.py --lr 5e-6 -b 0.1 --quick\n")
    run = read_run(command, {}, {})
    found = {item.key: item.value for item in run.overrides}
    assert (found[f"{ACTOR}.optim.lr"], found[f"{ACTOR}.kl_loss_coef"]) == (5e-6, 0.1)
    assert not [item for item in run.remarks if item.key in ("lr", "kl", "quick", "b")]


def test_an_option_of_the_name_config_is_the_script_s_own(tmp_path: Path) -> None:
    script = """
import argparse, yaml
parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
with open(parser.parse_args().config, encoding="utf-8") as file:
    settings = yaml.safe_load(file)["training"]
GRPOTrainer(model="a/b", args=GRPOConfig(beta=float(settings.get("kl", 0.0))), reward_funcs=score)
def score(completions, **more):
    return [0.0] * len(completions)
"""
    read(tmp_path, script, **{"conf/one.yaml": "training: {kl: 0.2}\n"})
    command = tmp_path / "run.sh"
    command.write_text("python scripts/train.py --config conf/one.yaml\n")
    run = read_run(command, {}, {})
    assert {item.key: item.value for item in run.overrides}[f"{ACTOR}.kl_loss_coef"] == 0.2
    assert not [item for item in run.remarks if "not known" in item.why or item.why == "of TRL alone"]


TABLE = """
from functools import partial, update_wrapper
from .limits import LONGEST

def near(completions, target, **more):
    return [-abs(target - len(one)) for one in completions]

def short(limit, settings):
    def score(completions, **more):
        return [float(len(one) < limit) * settings.weight for one in completions]
    return score

class Counted:
    def __init__(self, word):
        self.word = word

    def __call__(self, completions, **more):
        return [one.count(self.word) + LONGEST for one in completions]

def chosen(settings):
    table = {
        "near": update_wrapper(partial(near, target=settings.target), near),
        "short": short(settings.target * 2, settings),
        "counted": Counted("a"),
        "unused": short(settings.no_such, settings),
    }
    return [table[name] for name in settings.scores]
"""


@pytest.mark.parametrize(
    "read_by",
    [
        "import sys\nname = sys.argv[1]\n",
        "from sys import argv\nname = argv[1]\n",
        "parser = argparse.ArgumentParser()\nparser.add_argument('file')\nparser.add_argument('--n')\n"
        "name = parser.parse_args().file\n",
    ],
)
def test_words_of_a_command_that_have_no_flag(tmp_path: Path, read_by: str) -> None:
    script = (
        f"import argparse, yaml\n{read_by}SETTINGS = yaml.safe_load(open(name))\n"
        "def score(completions, **more):\n    return [SETTINGS['right'] for _ in completions]\n"
        "GRPOTrainer(model='a/b', args=GRPOConfig(beta=SETTINGS['kl'], num_generations=4), reward_funcs=score)\n"
    )
    run, _ = read(tmp_path, script, **{"conf/one.yaml": "{kl: 0.2, right: 1.0}\n"})
    assert {"beta", "reward_funcs"} <= {item.key for item in run.remarks if item.what == "to do"}
    command = tmp_path / "run.sh"
    command.write_text("python scripts/train.py conf/one.yaml --n 3\n")
    run = read_run(command, {}, {})
    assert {item.key: item.value for item in run.overrides}[f"{ACTOR}.kl_loss_coef"] == 0.2
    assert run.scored_by is not None
    assert "\nSETTINGS = {'kl': 0.2, 'right': 1.0}\n" in run.scored_by.text
    assert "\nname = 'conf/one.yaml'\n" in run.scored_by.text


@pytest.mark.parametrize(
    "made", ["Path(args.log)", "args.log", "Path(args.folder) / 'log'", "args.log.parent / args.log.name"]
)
def test_a_function_that_is_made_with_a_path_gets_one(tmp_path: Path, made: str) -> None:
    script = (
        "import argparse\nfrom pathlib import Path\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--log', type=Path, default='out/log')\nparser.add_argument('--folder', default='out')\n"
        "args = parser.parse_args()\n"
        "def made(log, name=''):\n    file = log.parent / 'x'\n    def score(completions, **more):\n"
        "        return [float(len(str(file)))] * len(completions)\n    return score\n"
        f"GRPOTrainer(model='a/b', args=GRPOConfig(num_generations=4), reward_funcs=made({made}, name=str(args.log)))\n"
    )
    run, _ = read(tmp_path, script)
    assert run.scored_by is not None
    (line,) = [line for line in run.scored_by.text.splitlines() if line.startswith("made_ = ")]
    assert line == "made_ = made(Path('out/log'), name='out/log')"
    names: dict[str, Any] = {}
    exec(run.scored_by.text.partition("GRPOTrainer(")[0] + f"from pathlib import Path\n{line}\n", names)
    assert names["made_"](["a"]) == [5.0]


def test_what_joins_texts_is_a_text(tmp_path: Path) -> None:
    script = (
        "import os\ndef made(log):\n    def score(completions, **more):\n        return [len(log)] * len(completions)\n"
        "    return score\n"
        "GRPOTrainer(model='a/b', args=GRPOConfig(num_generations=4), reward_funcs=made(os.path.join('out', 'log')))\n"
    )
    run, _ = read(tmp_path, script)
    assert run.scored_by is not None
    assert "\nmade_ = made('out/log')\n" in run.scored_by.text


def test_functions_of_a_table_of_the_repository_come_along_with_what_they_are_made_with(tmp_path: Path) -> None:
    script = """
from dataclasses import dataclass, field
from trl import GRPOConfig, GRPOTrainer, TrlParser
from scoring.table import chosen

@dataclass
class Settings:
    target: int = 2
    weight: float = 0.5
    scores: list[str] = field(default_factory=lambda: ["near", "short", "counted"])

settings, config = TrlParser((Settings, GRPOConfig)).parse_args_and_config()
GRPOTrainer(model="a/b", args=config, reward_funcs=chosen(settings))
"""
    files = {"scoring/__init__.py": "", "scoring/table.py": TABLE, "scoring/limits.py": "LONGEST = 9\n"}
    with pytest.raises(UsageError):
        read(tmp_path, script, **files)
    command = tmp_path / "run.sh"
    command.write_text("python scripts/train.py --num_generations 4 --target 3\n")
    scored_by = read_run(command, {}, {}).scored_by
    assert scored_by is not None
    assert (scored_by.functions, scored_by.place, scored_by.folder) == (
        ("near_", "short_", "counted"),
        "table.py",
        tmp_path,
    )
    sys.path.insert(0, str(tmp_path))
    try:
        names: dict[str, Any] = {}
        exec(scored_by.text, names)
    finally:
        sys.path.remove(str(tmp_path))
    scores = [names[name](["aaa", "b" * 7]) for name in scored_by.functions]
    assert scores == [[0, -4], [0.5, 0.0], [12, 9]]


def test_a_script_that_goes_on_for_ever_is_left(tmp_path: Path) -> None:
    text = (
        "beta = 0.1\nGRPOTrainer(args=GRPOConfig(beta=beta))\n"
        "def again(one):\n    for item in range(150):\n        again(one + item)\n    return one\n"
        + "if given():\n    beta = again(1)\n"
        * 50
    )
    assert asked(text) == 0.1


@pytest.mark.parametrize(
    "step",
    [
        "grown = [grown, grown]",
        "grown = grown + grown",
        "grown += grown",
        "grown.extend(grown)",
        "grown = [*grown, *grown]",
        "grown = copy.deepcopy([grown, grown])",
        "grown = {'a': grown, 'b': grown}",
        "grown.append(grown)",
        "text = f'{text}{text}'",
        "text = text.replace('a', text)",
        "text = ','.join([text] * 2)",
        "text = ','.join([text, text, text])",
        "number = number ** 99",
        "number = number * number",
        "number = max(range(10 ** number))",
        "grown = (lambda one: one(one))(lambda one: one(one))",
        "grown = partial(partial(grown, grown), grown)",
    ],
)
def test_nothing_that_a_script_says_grows_without_end(step: str) -> None:
    text = f"import copy\ngrown, text, number = [1], 'a', 9\nfor index in range(90):\n    {step}\n"
    asked(f"{text}GRPOTrainer(args=GRPOConfig(beta=[grown, text, number]), reward_funcs=[grown])\n")


@pytest.mark.parametrize(
    "name", ["from ............ import a", "from . import a", "import a.b.c as d", "from a import *"]
)
def test_modules_that_are_not_here_are_of_others(tmp_path: Path, name: str) -> None:
    script = f"{name}\nGRPOTrainer(model='a/b', args=GRPOConfig(beta=0.1, num_generations=4))\n"
    assert read(tmp_path, script)[1][f"{ACTOR}.kl_loss_coef"] == 0.1


def test_a_script_of_deep_expressions_is_read() -> None:
    deep = "(" * 60 + "1" + " + given())" * 60
    assert isinstance(asked(f"GRPOTrainer(args=GRPOConfig(beta={deep}))\n"), Computed)
