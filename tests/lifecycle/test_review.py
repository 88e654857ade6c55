"""What an upgrade tells of the owner's work, and what of it goes back where it was."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.project import base, lock
from extractor.usecases import diff
from extractor.usecases.upgrade.broken_owner_code import find_outdated_losses
from tests.cli.conftest import Result, project
from tests.cli.conftest import _pristine as _pristine
from tests.lifecycle.releases import Configuration, generated, options_of
from tests.lifecycle.worlds import create, git, replace_once

__all__ = ["project"]

ALGORITHMS = "toy/vendored/algorithms/core_algos.py"
METRICS, ACTOR = "toy/vendored/algorithms/metric_utils.py", "toy/vendored/workers/dp_actor.py"
LOSS = """
from ..vendored.algorithms.core_algos import agg_loss, register_policy_loss

@register_policy_loss("mine")
def mine(log_prob, **others):
    return agg_loss(log_prob, others["response_mask"]), 0, 0, 0
"""


@pytest.mark.slow
def test_a_reviewer_reads_what_touches_the_owners_work(
    verl: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = Configuration("0.6.1")
    root = create(tmp_path / "toy", generated(choice).tree, options_of(choice))
    text = (root / METRICS).read_text(encoding="utf-8")
    (root / METRICS).write_text(text.replace("    metrics = {\n", '    metrics = {\n        "mine": 1,\n'))
    laid_out = re.sub(r"(?m)^(    \w+: torch\.Tensor),$", r"\1 ,", (root / ALGORITHMS).read_text(encoding="utf-8"))
    (root / ALGORITHMS).write_text(laid_out)  # no edit
    with (root / "toy/custom/algorithms.py").open("a", encoding="utf-8") as hooks:
        hooks.write(LOSS)
    with (root / ACTOR).open("a", encoding="utf-8") as actor:
        actor.write("\n\nMINE = 1\n")
    assert command(["outdated", str(root), "--to", "0.8.0"]) == 1
    shown = capsys.readouterr().out
    page = tmp_path / "upgrade.md"
    assert command(["upgrade", str(root), "--to", "0.8.0", "--pr", str(page)]) == 0
    for said in (shown, page.read_text(encoding="utf-8")):
        assert said.startswith("# verl 0.6.1 -> verl 0.8.0\n")
        assert "| upstream: body | `vendored/algorithms/metric_utils.py: compute_data_metrics` | you edited it" in said
        assert "| upstream: signature | `vendored/algorithms/core_algos.py: agg_loss` | you import it" in said
        assert not re.search("core_algos.*you edited", said)
        assert "| to change | `toy/custom/algorithms.py:" in said
        assert f"| edit carried | `{METRICS}`" in said
        assert f"| edit parked | `{ACTOR}`" in said
        assert "`vextract upgrade --to 0.6.1`" in said
    assert "imports ok; ray ok; base ok" in page.read_text(encoding="utf-8")
    assert command(["outdated", str(root), "--to", "0.8.0"]) == 0
    assert capsys.readouterr().out.endswith("up to date\n")
    assert (root / f"orphaned/{ACTOR}.note").is_file()
    assert command(["upgrade", str(root), "--to", "0.7.0"]) == 0  # a parked edit goes back where it was
    assert "MINE = 1" in (root / ACTOR).read_text(encoding="utf-8")
    assert not (root / "orphaned").exists()


@pytest.mark.thorough
def test_numbers_that_moved_are_told(verl: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = Configuration("0.6.1")
    root = create(tmp_path / "toy", generated(choice).tree, options_of(choice))
    assert command(["outdated", str(root), "--to", "0.7.1", "--numbers"]) == 1
    moved = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- `")]
    (loss,) = (line for line in moved if line.startswith("- `core_algos.agg_loss[f32/"))
    assert "/seq-mean-token-sum-norm]`: " in loss
    old, new = (float(side.split()[0]) for side in loss.split(": ")[-1].split(", "))
    assert old == pytest.approx(8 * new)  # 0.7.1 divides by the 8 tokens of a row
    assert not any("core_algos.advantage[grpo/" in line for line in moved)


OLD, MIDDLE, NEW = (Configuration(release) for release in ("0.5.0", "0.6.1", "0.9.1"))
OWN = """
def agree(x, mask, config):
    return agg_loss(x, mask, **config.global_batch_info), {}


def one_pass(x, mask):
    zero = x.sum() * 0
    return masked_mean(x, mask), zero, zero, zero


@register_policy_loss("tanh")
def four_values(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None):
    return one_pass(torch.tanh(torch.exp(log_prob - old_log_prob) - 1), response_mask)


@core_algos.register_policy_loss("batch")
def of_the_batch(log_prob, response_mask, config, **others):
    result = agree(log_prob, response_mask, config)
    return result


@register_adv_est("mine")
def estimator(token_level_rewards, response_mask, **others):
    return token_level_rewards, token_level_rewards
"""


def told(old: Configuration, new: Configuration, text: str = OWN, emitted: str = "") -> dict[str, list[str]]:
    sides = ({file.path: file.data for file in generated(choice).tree} for choice in (old, new))
    found = find_outdated_losses(*sides, [("toy/custom/algorithms.py", text, emitted)], f"verl {new.release}")
    return {item.name: item.problem.split("; ") for item in found}


def test_what_a_release_calls_otherwise_is_named(verl: None) -> None:
    found = told(OLD, NEW)
    assert found.keys() == {"four_values"}
    values, arguments, mean = found["four_values"]
    assert values == "it returns 4 values, and verl 0.9.1 takes 2: return (loss, metrics), a tensor and a dict"
    assert arguments == "verl 0.9.1 passes rollout_is_weights as well: take it, or **others"
    assert mean.startswith("it averages a micro-batch")
    assert [len(problems) for problems in told(OLD, MIDDLE).values()] == [2], "passes are not added up there"
    assert told(NEW, MIDDLE)["of_the_batch"] == ["verl 0.6.1 has no config.global_batch_info: agg_loss(...) without it"]
    # Emitted examples, and verl's own, are not the owner's.
    assert told(OLD, NEW, emitted=OWN) == {}


@pytest.mark.usefixtures("verl")
def test_what_is_to_be_set_up_again(run: Callable[..., Result], project: Path) -> None:
    """What is installed no longer does, and settings of a former engine or feature are read by nothing."""
    assert "`make setup` would install it" in run("upgrade", project, "--with", "lora", "--dry-run", code=0).err
    assert "make setup" not in run("upgrade", project, "--with", "mfu", code=0).err  # code alone
    for arguments, locked in ((["--with", "lora"], True), (["--without", "lora"], False)):
        assert "run `make setup`" in run("upgrade", project, *arguments, code=0).err
        pins = (project / "requirements.lock").read_text()
        assert all((f"\n{name}==" in pins) is locked for name in ("peft", "accelerate"))

    config = project / "config/ppo_trainer.yaml"

    def read_to_change(*arguments: str) -> list[str]:
        found = json.loads(run("upgrade", project, *arguments, "--json", code=0).out)["settings"]["to_change"]
        lines = config.read_text().splitlines()
        assert all(lines[item["line"] - 1].strip().startswith(item["key"].rpartition(".")[2]) for item in found)
        return [item["key"] for item in found]

    assert read_to_change("--with", "lora") == []
    replace_once(config, "lora_rank: 0", "lora_rank: 2")
    replace_once(config, "rollout_micro_batch_size: null", "rollout_micro_batch_size: 2")
    assert read_to_change("--engine", "vllm") == ["local.rollout_micro_batch_size"]
    replace_once(config, "mode: sync", "mode: async")
    changed = ["actor_rollout_ref.model.lora_rank", "actor_rollout_ref.rollout.mode"]
    assert read_to_change("--engine", "hf", "--without", "lora") == changed
    said = run("upgrade", project, "--with", "lora", code=0)
    assert "(nothing reads this value of actor_rollout_ref.rollout.mode any more)\n" in said.out


# Branches of a project at two releases, merged with Git.

CORE, LOSSES = "toy/vendored/algorithms/core_algos.py", "toy/vendored/algorithms/losses.py"
HOOKS = "toy/custom/algorithms.py"
LINE = "    negative_approx_kl = log_prob - old_log_prob\n"
NEWER = "0.9.1"


def edit(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text(encoding="utf-8")
    assert old in text
    (root / path).write_text(text.replace(old, new, 1), encoding="utf-8")
    git(root, "commit", "-qam", new.strip())


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, verl: None) -> Path:
    """`old` has two more edits at verl 0.6.1, `new` was upgraded and has others; one edit they have in common."""
    choice = Configuration("0.6.1")
    root = create(tmp_path_factory.mktemp("merged") / "team/toy", generated(choice).tree, options_of(choice))
    git(root.parent, "init", "-q", "-b", "main")
    (root.parent / "beside.txt").write_text("one\n")
    git(root.parent, "add", "-A")
    git(root, "commit", "-qm", "all")
    edit(root, CORE, LINE, LINE.replace("\n", "  # common\n"))
    git(root, "checkout", "-qb", "old")
    edit(root, CORE, "def agg_loss(", "OLD = 1\n\n\ndef agg_loss(")
    edit(root, HOOKS, "import numpy", "import math\n\nimport numpy")
    git(root, "checkout", "-qb", "new", "main")
    assert command(["upgrade", str(root), "--to", NEWER]) == 0
    git(root.parent, "add", "-A")
    git(root, "commit", "-qm", "upgrade")
    edit(root, LOSSES, "    metrics = {}\n", "    metrics = {}  # new\n")
    edit(root.parent, "beside.txt", "one", "two")
    git(root, "checkout", "-q", "old")
    return root.parent


@pytest.fixture
def root(team: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(team, tmp_path / "team")) / "toy"


def both_sides_are_there(root: Path) -> None:
    for path, said in ((CORE, "OLD = 1"), (LOSSES, "# new"), (HOOKS, "import math"), ("../beside.txt", "two\n")):
        assert said in (root / path).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.thorough
def test_both_sides_edits_are_in_the_newer_release(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["merge", "new", "--project", str(root)]) == 0, capsys.readouterr()
    git(root, "commit", "-qm", "merged")
    assert git(root, "log", "-1", "--format=%P").count(" ") == 1
    assert git(root, "status", "--porcelain") == ""
    both_sides_are_there(root)
    locked = lock.read(root)
    assert locked.options.verl == NEWER
    assert set(diff.list_edits(root, locked, base.read(root, locked))) == {CORE, LOSSES}


@pytest.mark.slow
def test_a_merge_that_git_has_begun_conflicts_where_edits_meet(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (([], "no merge is going on"), (["main"], "nothing to merge")):
        assert command(["merge", *arguments, "--project", str(root)]) == 2
        assert said in capsys.readouterr().err
    readme = (root / "README.md").read_bytes()
    (root / "README.md").write_text("mine")
    assert command(["merge", "new", "--project", str(root)]) == 2
    assert "uncommitted changes" in capsys.readouterr().err
    (root / "README.md").write_bytes(readme)
    common = LINE.replace("\n", "  # common\n")
    edit(root, CORE, common, LINE.replace("log_prob -", "2 * log_prob -"))
    assert command(["add", "critic", "--project", str(root)]) == 0
    assert command(["merge", "--driver"]) == 0
    (setup,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("git config"))
    subprocess.run(setup, shell=True, cwd=root, check=True)  # the command that a reader would type
    git(root, "add", "-A")
    git(root, "commit", "-qm", "critic")
    git(root, "checkout", "-q", "new")
    edit(root, CORE, common, LINE.replace("log_prob -", "3 * log_prob -"))
    git(root, "checkout", "-q", "old")
    assert "run vextract merge" in git(root, "merge", "new", code=1)
    lock.read(root)
    capsys.readouterr()
    assert command(["merge", "--project", str(root)]) == 1
    (shown,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("conflict"))
    assert shown.startswith(f"conflict  {CORE}  (line ")
    assert git(root, "diff", "--name-only", "--diff-filter=U").split() == [f"toy/{CORE}"]
    both_sides_are_there(root)
    merged = lock.read(root).options
    assert (merged.verl, merged.features) == (NEWER, ("critic", "shared_passes"))
    git(root, "merge", "--abort")
    assert lock.read(root).options.verl == "0.6.1"
