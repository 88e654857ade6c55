"""`vextract adopt` on forks of the real releases."""

import ast
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.adopt import Outcome, adopt, recognise
from extractor.pipeline import generate
from extractor.pipeline.generate import complete
from extractor.pipeline.source import Source
from extractor.values import releases
from extractor.values.indentation import reindent
from extractor.values.options import Options
from tests.importers.adopt.forks import ACTOR, ALGOS, CONFIG, METRICS, TRAINER, Fork, fates, tree_of
from tests.releases import ALL, NEWEST, source_of

pytestmark = pytest.mark.slow  # it begins early, being long


def states(run: Any, project: Path) -> dict[str, str]:
    return {file["path"]: file["state"] for file in json.loads(run("status", project, "--json").out)["files"]}


# Each release, under its own name or another one.
FORKED = [(release, ("verl", "myrl.verl_copy")[number % 2]) for number, release in enumerate(ALL)]
ORDINARY = (NEWEST[-1], "myrl.verl_copy")


@pytest.mark.parametrize(
    ("release", "prefix"),
    [pytest.param(*item, marks=() if item == ORDINARY else pytest.mark.thorough) for item in FORKED],
)
def test_unedited_fork_is_a_new_project(run, tmp_path: Path, release: str, prefix: str) -> None:
    """Renamed imports, other line ends, other indentation and missing parts are no edits."""
    fork = Fork(tmp_path / "repo", source_of(release), prefix)
    fork.crlf(ALGOS)
    fork.write("protocol.py", reindent(fork.read("protocol.py"), 2))
    unused = next(name for name in ("fsdp_workers.py", "engine_workers.py") if (fork.root / "workers" / name).exists())
    (fork.root / "workers" / unused).unlink()
    result = run("adopt", fork.top, tmp_path / "toy", "--json", "--offline")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["release"] == release
    assert report["edits"] == []
    assert report["fork"]["prefixes"] == ([] if prefix == "verl" else [prefix])
    assert report["carried"] == {"carried": 0, "total": 0}
    assert run("new", tmp_path / "new", "--package", "toy", "--verl", release).code == 0
    assert tree_of(tmp_path / "toy") == tree_of(tmp_path / "new")


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """A fork of 0.5.0 under another name, with parts missing and edits of every sort."""
    fork = Fork(tmp_path / "repo", source_of("0.5.0"), "myrl.verl_copy")
    for path in ("workers/megatron_workers.py", "utils/tracking.py", "trainer/main_ppo.py"):
        (fork.root / path).unlink()
    name = fork.prefix
    fork.into(ALGOS, "compute_grpo_outcome_advantage", "token_1 = helper_2(0)")
    fork.append(ALGOS, "\n\ndef helper_2(x):\n    return itertools.count(x)\n\n\ndef unused_3():\n    return 3\n")
    fork.append(
        ALGOS,
        '\n\n@register_adv_est("mine_4")\ndef mine_4(**kwargs):\n'
        f"    from {name}.utils.torch_functional import masked_mean\n\n    return masked_mean\n"
        "\n\ndef new_5():\n    return 5\n\n\ndef lost_6():\n    return dataclass_6\n",
    )
    fork.change(ALGOS, "import numpy as np\n", "import itertools\nimport numpy as np\n")
    # Named from another module, through an import that stands beside others.
    fork.into(TRAINER, "compute_advantage", "token_7 = new_5()")
    imports = f"import numpy as np\nfrom {name}.trainer.ppo.core_algos import new_5\nimport unused_package_8\n"
    fork.change(TRAINER, "import numpy as np\n", imports)
    fork.into(TRAINER, "fit", "token_9 = 1")
    fork.into("workers/fsdp_workers.py", "init_model", "token_10 = 1")
    fork.into(ACTOR, "update_policy", "token_11 = 1  # caf\u00e9")
    fork.crlf(ACTOR)
    fork.into("protocol.py", "union", "import ray; token_12 = ray")
    tracking = f"from {name}.utils.tracking import Tracking; token_13 = 1"
    fork.into("utils/torch_functional.py", "masked_whiten", tracking)
    fork.append(CONFIG, "\ntoken_14: 1\n")
    fork.write("utils/reward_score/gsm8k.py", "def broken_15(:\n")
    fork.write("utils/mine.py", "own_16 = 1\n")
    # Upstream has a file of that name, but not in this release.
    fork.write("utils/groupwise.py", "own_17 = 1\n")
    return fork


def test_edits_are_carried_or_parked(run, tmp_path: Path, fork: Fork) -> None:
    project = tmp_path / "toy"
    result = run("adopt", fork.top / "myrl", project, "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["release"] == "0.5.0"
    assert report["scores"][0]["release"] == "0.5.0"
    assert sorted(report["newer"]) == sorted(ALL[ALL.index("0.5.0") + 1 :])
    assert fates(report) == {
        f"verl/{ALGOS}:compute_grpo_outcome_advantage": "carried",
        f"verl/{ALGOS}:helper_2": "carried",
        f"verl/{ALGOS}:import itertools": "carried",
        f"verl/{ALGOS}:unused_3": "orphaned",
        f"verl/{ALGOS}:mine_4": "carried",
        f"verl/{ALGOS}:new_5": "carried",
        f"verl/{ALGOS}:lost_6": "orphaned",
        f"verl/{TRAINER}:compute_advantage": "carried",
        f"verl/{TRAINER}:from verl.trainer.ppo.core_algos import new_5": "carried",
        f"verl/{TRAINER}:import unused_package_8": "orphaned",
        f"verl/{TRAINER}:RayPPOTrainer": "orphaned",
        "verl/workers/fsdp_workers.py:ActorRolloutRefWorker": "orphaned",
        f"verl/{ACTOR}:DataParallelPPOActor": "carried",
        "verl/protocol.py:DataProto": "orphaned",
        "verl/utils/torch_functional.py:masked_whiten": "orphaned",
        f"verl/{CONFIG}:the whole file": "orphaned",
        "verl/utils/reward_score/gsm8k.py:the whole file": "orphaned",
    }
    carried = [item for item in report["edits"] if item["outcome"] == "carried"]
    assert report["carried"] == {"carried": 6, "total": 12}
    assert report["own"] == [
        {"path": "verl_copy/utils/groupwise.py", "copied": None, "is_upstreams": False},
        {"path": "verl_copy/utils/mine.py", "copied": None, "is_upstreams": False},
    ]

    said = {item["symbol"]: (item["parts"], item["why"]) for item in report["edits"]}
    its_own = "the project has its own instead: toy/training/trainer.py, toy/training/run_loop.py"
    assert said["RayPPOTrainer"] == (["fit"], its_own)
    assert said["ActorRolloutRefWorker"][0] == ["init_model"]
    assert said["DataParallelPPOActor"] == (["update_policy"], "")

    found = tree_of(project)
    tokens = [f"token_{number}" for number in (1, 7, 9, 10, 11, 12, 13, 14)]
    tokens += ["helper_2", "unused_3", "mine_4", "new_5", "lost_6", "unused_package_8", "broken_15"]
    for token in tokens:
        assert any(token.encode() in data for path, data in found.items()), token
    for item in report["edits"]:
        if item["outcome"] == "orphaned":
            note = found[f"{item['where']}.note"].decode()
            what = f"{item['what']} in {', '.join(item['parts'])}" if item["parts"] else item["what"]
            assert f"- {item['symbol']} ({what})" in note
            assert found[item["where"]] == (fork.root / item["upstream_path"].removeprefix("verl/")).read_bytes()
    shown = states(run, project)
    edited = {"README.md", *(item["where"] for item in carried)}  # it says what the project was made of
    assert {path for path, state in shown.items() if state == "edited"} == edited
    assert {path for path, state in shown.items() if state == "orphaned"} == {
        item["where"] for item in report["edits"] if item["outcome"] == "orphaned"
    }
    for path, data in found.items():
        if path.endswith(".py") and not path.startswith("orphaned/"):
            ast.parse(data)
    assert run("new", tmp_path / "new", "--package", "toy", "--verl", "0.5.0").code == 0
    pristine = tree_of(tmp_path / "new")
    for path in ("vextract.lock", ".vextract/base.zip"):
        assert found[path] == pristine[path]
    checked = run("verify", project, "--no-parity")
    assert checked.code == 0, checked.out
    assert "helper_2" in run("diff", project).out
    assert json.loads(run("upgrade", project, "--dry-run", "--json", code=0).out)


def test_files_of_the_forks_own_come_with_what_imports_them(run, tmp_path: Path) -> None:
    fork = Fork(tmp_path / "repo", source_of("0.6.1"), "copied")
    text = "import copied.utils.torch_functional as F\n\n\ndef own():\n    return F.masked_mean\n"
    fork.write("extra/own/__init__.py", text)  # of the two Python imports the package
    fork.write("extra/own.py", "def own():\n    return 1\n")
    (fork.top / "agent.py").write_text("y = 1\n")
    fork.into(ALGOS, "kl_penalty", "from copied.extra.own import own; own()")
    fork.into(ALGOS, "agg_loss", "import agent; agent.y")
    fork.change(METRICS, "def compute_timing_metrics(", "def compute_timing_metrics(step, ")
    report = json.loads(run("adopt", fork.top, tmp_path / "toy", "--json").out)
    assert report["own"] == [
        {"path": "copied/extra/own.py", "copied": None, "is_upstreams": False},
        {"path": "copied/extra/own/__init__.py", "copied": "toy/fork/extra/own/__init__.py", "is_upstreams": False},
    ]
    parked = {f"verl/{ALGOS}:agg_loss": "orphaned", f"verl/{METRICS}:compute_timing_metrics": "orphaned"}
    assert fates(report) == {f"verl/{ALGOS}:kl_penalty": "carried", **parked}
    made = tmp_path / "toy/toy"
    assert "from toy.fork.extra.own import own; own()" in (made / "vendored/algorithms/core_algos.py").read_text()
    own = (made / "fork/extra/own/__init__.py").read_text()
    assert own.startswith("import toy.vendored.utils.torch_functional as F\n")


def test_nothing_is_written(run, tmp_path: Path) -> None:
    fork = Fork(tmp_path / "repo", source_of("0.6.1"))
    fork.into(ALGOS, "kl_penalty", "token = 1")
    result = run("adopt", fork.root)
    assert result.code == 0
    assert "nearest release: verl 0.6.1" in result.out
    assert "carried over: 1 of 1 symbols (100 %)" in result.out
    assert "nothing was written" in result.err
    assert sorted(os.listdir(tmp_path)) == ["repo"]


def test_bad_inputs_are_refused(run, tmp_path: Path) -> None:
    """They end with exit code 2 and a hint."""
    for name, text in (
        ("empty/notes", ""),
        ("other/protocol.py", "class DataProto:\n    a_line_of_something_else = 1\n"),
        ("taken/file", ""),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    for arguments, message in (
        ([tmp_path / "nothing"], "no such directory"),
        ([tmp_path / "taken/file"], "not a directory"),
        ([tmp_path / "empty"], "no copy of verl in it"),
        ([tmp_path / "other"], "no copy of verl in it"),
        ([tmp_path / "other", tmp_path / "taken"], "not empty"),
        ([tmp_path / "other", "--verl", "0.6.2"], "not supported"),
    ):
        result = run("adopt", *arguments)
        assert (result.code, message in result.err, "hint: " in result.err) == (2, True, True), result.err


NAIVE = "workers/reward_manager/naive.py"


@pytest.fixture
def run_fork(fork_0_5_0: Fork) -> Fork:
    """A fork that changed a loss, has an estimator and a manager of its own, and a script that goes by them."""
    fork = fork_0_5_0
    (fork.top / ".git").mkdir()
    fork.into(ALGOS, "compute_policy_loss", "token_1 = 1")
    fork.append(ALGOS, '\n\n@register_adv_est("mine_2")\ndef mine_2(**kwargs):\n    return kwargs\n')
    fork.into(TRAINER, "fit", "token_3 = 1")
    fork.into(NAIVE, "__call__", "token_4 = 1")
    (fork.top / "run.sh").write_text(
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=mine_2 actor_rollout_ref.rollout.n=3 \\\n"
        "  actor_rollout_ref.model.path=$MODEL data.train_batch_size=6 trainer.mine_5=1\n"
    )
    return fork


def test_with_a_run_a_project_has_the_edits_and_the_experiment(run: Any, tmp_path: Path, run_fork: Fork) -> None:
    """The lock and the base are those of a project without the fork's edits; once more it gives the same bytes."""
    project, again, plain = tmp_path / "a/toy", tmp_path / "b/toy", tmp_path / "c/toy"
    asked = ("--from-verl-run", run_fork.top / "run.sh", "--keep-unknown", "--set", "MODEL=/m", "--offline")
    for place in (again, project):
        result = run("adopt", run_fork.top, place, *asked, "--json")
        assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["release"] == "0.5.0"
    found = fates(report)
    assert (found[f"verl/{ALGOS}:compute_policy_loss"], found[f"verl/{ALGOS}:mine_2"]) == ("carried", "carried")
    assert found[f"verl/{TRAINER}:RayPPOTrainer"] == "orphaned"
    assert "token_1 = 1" in (project / "toy/vendored/algorithms/core_algos.py").read_text()
    assert report["options"]["engine"] == "vllm", "which is verl's default"
    settings = report["run"]["settings"]
    assert settings["actor_rollout_ref.rollout.n"] == 3
    assert settings["actor_rollout_ref.model.path"] == "/m"
    recipe = (project / "config/recipe/verl_run.yaml").read_text()
    assert "train_batch_size: 6" in recipe
    assert "mine_5" in (project / "config/unknown.yaml").read_text()
    assert "token_4 = 1" in (project / "toy/custom/verl_program.py").read_text()
    (about,) = [item for item in report["run"]["remarks"] if item["key"] == "verl"]
    assert "core_algos.py, trainer/ppo/ray_trainer.py: no known version" in about["why"]
    assert "below orphaned/" in about["why"]
    # What is registered in the project already does not come a second time.
    assert not (project / "toy/custom/verl_algorithms.py").exists()
    assert settings["algorithm.adv_estimator"] == "mine_2"
    assert tree_of(project) == tree_of(again)
    assert run("new", plain, *asked, "--verl", "0.5.0").code == 0
    assert tree_of(project)[".vextract/base.zip"] == tree_of(plain)[".vextract/base.zip"]
    assert states(run, project)["toy/vendored/algorithms/core_algos.py"] == "edited"
    assert run("sync", project, "--offline").code == 0
    kept = {path: data for path, data in tree_of(project).items() if not path.startswith(".vextract/")}
    assert kept.items() <= tree_of(again).items()


def scatter(fork: Fork, source: Source, kept: list[str], chance: random.Random) -> list[str]:
    """Make edits, each with a token of its own, and return the tokens."""
    others = [path for path in source.files if path.endswith(".py") and path not in kept]
    tokens = []
    for number in range(60):
        path = chance.choice(kept if chance.random() < 0.8 else others).removeprefix("verl/")
        lines = fork.read(path).split("\n")
        place = chance.randrange(len(lines))
        if _is_import(lines, place):
            continue  # comments between imports stay behind
        indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
        token = f"TOKEN{number}END"
        if chance.random() < 0.5:
            lines.insert(place, f"{indent}{chance.choice(['# ', ''])}{token}")
        else:
            lines[place] = chance.choice([f"{lines[place]}  # {token}", f"{indent}# {token}"])
        text = "\n".join(lines)
        if number % 10:
            try:
                ast.parse(text)
            except SyntaxError:
                continue
        fork.write(path, text)
        tokens.append(token)
    return tokens


def _is_import(lines: list[str], place: int) -> bool:
    """Whether a line is of an import at the top, or above one."""
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return False
    nodes = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    ends = {
        node: min((other.lineno for other in body if other.lineno > node.lineno), default=len(lines)) for node in nodes
    }
    return any(node.lineno - 2 <= place <= end for node, end in ends.items())


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_no_edit_is_lost(tmp_path: Path, verl_0_6_1: Source, seed: int) -> None:
    manifest = releases.load("0.6.1")
    options = complete(Options("toy", "0.6.1"), manifest)
    made = generate.generate(options, verl_0_6_1, manifest)
    fork = Fork(tmp_path / "repo", verl_0_6_1, "abc.verl_x")
    kept = [module.upstream_path for module in made.sliced.modules]
    tokens = scatter(fork, verl_0_6_1, kept, random.Random(seed))
    adoption = adopt(recognise(fork.top, None), options, manifest)
    written = {path: data.decode() for path, data in adoption.plan.writes().items()}
    assert len(tokens) > 30
    for token in tokens:
        assert any(token in text for text in written.values()), token
    for edit in adoption.edits:
        for token in tokens:
            if token in edit.new:
                assert token in written[edit.where], (token, edit.symbol)
        assert edit.where.startswith("orphaned/") == (edit.outcome is Outcome.ORPHANED)
    for path, text in written.items():
        if path.endswith(".py") and not path.startswith("orphaned/"):
            ast.parse(text)
