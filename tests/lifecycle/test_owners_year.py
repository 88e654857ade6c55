"""An owner's year: edits of sixteen kinds go to the newest release, at once and step by step, and back."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.values import releases
from tests.lifecycle.releases import Configuration, generated, options_of
from tests.lifecycle.worlds import create
from tests.project.running import python, train

FIRST, LAST = "0.5.0", releases.find_default()
BETWEEN = releases.list_supported()[releases.list_supported().index(FIRST) + 1 :]

LOSS = """

@register_policy_loss("mine_tanh")
def compute_policy_loss_mine_tanh(
    old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None
):
    mine_losses = -advantages * torch.tanh(torch.exp(log_prob - old_log_prob) - 1.0)
    loss = agg_loss(loss_mat=mine_losses, loss_mask=response_mask, loss_agg_mode=loss_agg_mode)
    return loss, torch.tensor(0.0), torch.tensor(0.0), torch.tensor(0.0)


@register_adv_est("mine_sign")
def compute_mine_sign_advantage(token_level_rewards, response_mask, config=None, **others):
    advantages = config.get("mine_alpha") * token_level_rewards.sum(dim=-1, keepdim=True).sign() * response_mask
    return advantages, advantages
"""
REWARD = """

mine_reward = EnvRewardManager.score
EnvRewardManager.score = staticmethod(lambda *given, **settings: {**mine_reward(*given, **settings), "mine": 0.5})
"""
CONFLICT = re.compile(r"^<<<<<<< .*?\n(.*?)^\|{7} .*?^>>>>>>> .*?\n", re.DOTALL | re.MULTILINE)
IMPORTS = """
import importlib, pathlib, sys
sys.path.insert(0, ".")
for path in sorted(pathlib.Path("toy").rglob("*.py")):
    importlib.import_module(".".join(path.with_suffix("").parts))
"""


def _append(text: str) -> Callable[[str], str]:
    return lambda before: before + text


def _replace(pattern: str, new: str) -> Callable[[str], str]:
    def changed(before: str) -> str:
        after, count = re.subn(pattern, new, before, count=1, flags=re.MULTILINE)
        assert count, pattern
        return after

    return changed


def _in_function(name: str, change: Callable[[list[str], int], list[str]]) -> Callable[[str], str]:
    """Change the lines of a function, told which of them is its last statement's first."""

    def changed(before: str) -> str:
        node = next(item for item in ast.parse(before).body if isinstance(item, ast.FunctionDef) and item.name == name)
        first = min([node.lineno, *(item.lineno for item in node.decorator_list)]) - 1
        lines, end = before.split("\n"), node.end_lineno or node.lineno
        lines[first:end] = change(lines[first:end], node.body[-1].lineno - 1 - first)
        return "\n".join(lines)

    return changed


METRICS, CONFIG = "toy/vendored/algorithms/metric_utils.py", "config/ppo_trainer.yaml"
ALGORITHMS, TENSORS = "toy/vendored/algorithms/core_algos.py", "toy/vendored/utils/torch_functional.py"
# Kind -> the file, the edit, and what is found of it afterwards.
EDITS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "loss": (ALGORITHMS, _append(LOSS), r"(?s)mine_losses = -advantages.*def compute_mine_sign_advantage"),
    "display": (METRICS, _replace(r"^    metrics = \{$", '\\g<0>\n        "mine/one": 1.0,'), '"mine/one": 1.0,'),
    "default": (CONFIG, _replace("size: 1024$", "size: 768"), "train_batch_size: 768"),
    "renamed default": (
        "config/optim/adamw.yaml",
        _replace("^warmup_style: constant$", "warmup_style: cosine"),
        "(lr_scheduler_type|warmup_style): cosine",
    ),
    "own key": (CONFIG, _replace("^algorithm:$", "algorithm:\n  mine_alpha: 0.25"), "mine_alpha: 0.25"),
    "weights": (
        "config/reward/reward.yaml",
        _replace(r"(?s)(reward_model:.*?\n  reward_kwargs:) {}", r"\1 {weights: {score: 1.0, mine: 2.0}}"),
        "mine: 2.0",
    ),
    "reward": ("toy/custom/reward_manager.py", _append(REWARD), "mine_reward"),
    "hook": ("toy/custom/algorithms.py", _append('\nMINE_KEYS = ("algorithm.mine_alpha",)\n'), "MINE_KEYS ="),
    "own import": (
        TENSORS,
        _replace("^import torch$", "import torch\nfrom ...own.helpers import MINE_HELP"),
        "import MINE_HELP",
    ),
    "parameter": (
        "toy/vendored/utils/metric/utils.py",
        _in_function("reduce_metrics", lambda lines, _: [re.sub(r"\bmetrics\b", "mine_measured", it) for it in lines]),
        "mine_measured",
    ),
    "own file": ("toy/own/helpers.py", _append("MINE_HELP = 1\n"), "MINE_HELP = 1"),
    "requirement": ("pyproject.toml", _replace(r"^dependencies = \[$", '\\g<0>\n    "einops>=0.7",'), '"einops>=0.7",'),
}
DELETED = "compute_remax_outcome_advantage"


def make(root: Path) -> Path:
    choice = Configuration(FIRST, features=("reward_rules",))
    create(root, generated(choice).tree, options_of(choice))
    assert command(["add", "verl.utils.seqlen_balancing:karmarkar_karp", "--project", str(root)]) == 0
    for path, change, _ in [*EDITS.values(), (ALGORITHMS, _in_function(DELETED, lambda *_: []), "")]:
        file = root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(change(file.read_text() if file.exists() else ""))
    return root


def upgrade(root: Path, release: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Upgrade, see what became of each edit, resolve conflicts for the owner's side; return what is to be changed."""
    capsys.readouterr()
    code = command(["upgrade", str(root), "--to", release, "--allow-dirty", "--json"])
    report = json.loads(capsys.readouterr().out)
    conflicts = {item["path"] for item in report["verdicts"] if item["verdict"] == "conflict"}
    assert code == (1 if conflicts else 0)
    command(["status", str(root), "--json"])
    files = {item["path"]: item for item in json.loads(capsys.readouterr().out)["files"]}
    assert {path for path, item in files.items() if item["state"] == "conflicted"} == conflicts
    for path in conflicts:
        assert re.search(r"lines? \d", files[path]["note"]), files[path]
        text = (root / path).read_text()
        (root / path).write_text(CONFLICT.sub(r"\1", text))
    if conflicts:
        assert command(["upgrade", str(root), "--continue"]) == 0
    look(root)
    return {item["name"] for item in report["hooks"]}


def look(root: Path) -> None:
    """See that no edit is lost, and that everything imports."""
    there = [path for path in root.rglob("*") if path.is_file() and ".vextract" not in path.parts]
    texts = {path.relative_to(root).as_posix(): path.read_text(errors="replace") for path in there}
    for kind, (_, _, found) in EDITS.items():
        places = [path for path, text in texts.items() if re.search(found, text)]
        assert places, kind
        assert not places[0].startswith("orphaned/") or f"{places[0]}.note" in texts, kind
    assert f"def {DELETED}" not in texts[ALGORITHMS]
    assert "def karmarkar_karp" in texts["toy/vendored/utils/seqlen_balancing.py"]
    for words in (("-c", IMPORTS), ("main.py", "--cfg")):
        done = python(root, *words)
        assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [(LAST,), BETWEEN], ids=["at once", "step by step"])
def test_an_owners_year(steps: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make(tmp_path / "toy")
    look(root)
    up = [upgrade(root, release, capsys) for release in steps]
    assert "compute_policy_loss_mine_tanh" in set().union(*up)
    there = train(root)
    assert "compute_policy_loss_mine_tanh" not in upgrade(root, FIRST, capsys)
    for row in (*there, *train(root, "algorithm.adv_estimator=mine_sign")):
        assert row["reward/mine/mean"] == 0.5
        assert row["critic/score/mean"] == pytest.approx(row["reward/score/mean"] + 1.0)
