"""Upgrades over the releases at which upstream took files, roles and config keys away."""

import os
import random
import zlib
from pathlib import Path

import pytest
from packaging.version import Version

from extractor.cli.app import run as command
from extractor.pipeline.plan import Verdict
from extractor.values.config_files import is_config
from extractor.values.configtree.settings import list_every_setting
from extractor.values.configtree.yaml_text import Document, Value, put
from extractor.values.renames import Renames
from extractor.values.tree import FileKind, Tree
from tests.lifecycle.releases import BREAKS, LONGEST, Configuration, generated, options_of
from tests.lifecycle.test_kills import sweep
from tests.lifecycle.test_matrix import successors
from tests.lifecycle.worlds import create, ready
from tests.project.running import train
from tests.releases import EVERYTHING

ROUNDS = 5 if EVERYTHING else 2
EVERY_BREAK = [pytest.param(*step, marks=() if step == LONGEST else pytest.mark.thorough) for step in BREAKS]
# A sweep kills at every so many calls.
STRIDE = int(os.environ.get("VEXTRACT_KILL_STRIDE", "25"))


def with_settings(project: Path, tree: Tree, seed: int) -> dict[str, str]:
    """Set random keys of a project's config; value -> file."""
    chance = random.Random(seed)
    tokens = {}
    for file in tree:
        if not is_config(file.path) or "preset/" in file.path:
            continue
        text = file.data.decode()
        leaves = [
            path for path, entry in Document.of(text).entries.items() if not entry.section and path != ("defaults",)
        ]
        for path in chance.sample(leaves, min(len(leaves), 8)):
            token = f"SET_{chance.getrandbits(48):012x}"
            changed = put(text, path, Value(f" {token}\n"))
            assert changed is not None
            text = changed
            tokens[token] = file.path
        (project / file.path).write_text(text)
    return tokens


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), EVERY_BREAK, ids=lambda choice: str(choice))
def test_no_setting_is_lost(old: Configuration, new: Configuration, tmp_path: Path) -> None:
    before, after = generated(old).tree, generated(new).tree
    renamed = Renames(old.release, new.release)
    for number in range(ROUNDS):
        project = create(tmp_path / f"toy{number}", before, options_of(old))
        tokens = with_settings(project, before, zlib.crc32(f"{old} {new} {number}".encode()))
        texts = {path: (project / path).read_text() for path in tokens.values()}
        was = {item.value: item.key for item in _settings(texts, before)}
        entry = ready(project, after, options_of(new), successors(old, new))
        entry.run()
        conflicts = entry.plan.paths(Verdict.CONFLICT)
        config = {file.path: project / file.path for file in after if is_config(file.path)}
        now: dict[str, set[str]] = {}
        for item in _settings(
            {path: file.read_text() for path, file in config.items() if path not in conflicts}, after
        ):
            now.setdefault(item.value, set()).add(item.key)
        for token, file in tokens.items():
            parked = project / "orphaned" / file
            if token in now:
                assert now[token] & {was[token], renamed(was[token])}, (token, was[token])
            elif not any(token in config[path].read_text() for path in conflicts if path in config):
                assert token in parked.read_text()
                assert token in (project / f"orphaned/{file}.note").read_text()


def _settings(texts: dict[str, str], tree: Tree) -> list:
    """All settings, of these files and, where they are not among them, of those that are emitted."""
    emitted = {file.path: file.data.decode() for file in tree if is_config(file.path)}
    return list_every_setting(
        {path.removeprefix("config/"): text for path, text in {**emitted, **texts}.items()}, "ppo_trainer.yaml"
    )


def edited(project: Path, tree: Tree) -> None:
    """An edit of each kind, as somebody makes them who trains with the project."""
    for file in tree:
        path = project / file.path
        if (file.path.endswith("dp_actor.py") and file.path.startswith("toy/")) or file.path.endswith("losses.py"):
            path.write_bytes(file.data.replace(b"import os\n", b"import os  # mine\n", 1) + b"\n\nMINE = 1\n")
        elif file.path == "config/reward/reward.yaml":
            path.write_bytes(file.data.replace(b"name: compute_score", b"name: mine", 1))
        elif file.path == "main.py" or file.kind is FileKind.HOOK:
            path.write_bytes(file.data + b"# mine\n")
    (project / "runs").mkdir()
    (project / "runs/mine.txt").write_text("mine\n")


@pytest.mark.thorough
@pytest.mark.parametrize(("old", "new"), [*BREAKS], ids=lambda choice: str(choice))
def test_killed_anywhere(old: Configuration, new: Configuration, tmp_path: Path) -> None:
    original = create(tmp_path / "toy", generated(old).tree, options_of(old))
    edited(original, generated(old).tree)
    entry = ready(original, generated(new).tree, options_of(new), successors(old, new))
    sweep(original, entry, STRIDE)


HOOK = """

_score = EnvRewardManager.score


def _with_mine(*arguments, **settings):
    return {**_score(*arguments, **settings), "mine": 0.5}


EnvRewardManager.score = staticmethod(_with_mine)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new"), [("0.5.0", "0.9.1"), ("0.6.1", "0.7.1"), ("0.7.1", "0.8.0"), ("0.8.0", "0.9.1"), ("0.9.1", "0.6.1")]
)
def test_the_upgraded_project_trains(old: str, new: str, tmp_path: Path) -> None:
    """With a hook as it was, a setting under its present name, and an orphan for an edited actor that is gone."""
    choice = Configuration(old, features=("reward_rules",))
    root = create(tmp_path / "toy", generated(choice).tree, options_of(choice))
    with (root / "toy/custom/reward_manager.py").open("a") as file:
        file.write(HOOK)
    actor = root / "toy/vendored/workers/dp_actor.py"
    if actor.exists():
        actor.write_text(f"{actor.read_text()}\n\nMINE = 1\n")
    config = root / "config/reward/reward.yaml"
    section = "reward" if Version(old) >= Version("0.7.1") else "reward_model"
    weighted = put(config.read_text(), (section, "reward_kwargs", "weights"), Value(" {score: 1.0, mine: 2.0}\n"))
    assert weighted is not None
    config.write_text(weighted)
    assert command(["upgrade", str(root), "--to", new]) == 0
    assert (root / "orphaned/toy/vendored/workers/dp_actor.py").exists() == (
        (old, new) in (("0.5.0", "0.9.1"), ("0.7.1", "0.8.0"))
    )
    for row in train(root):
        assert row["reward/mine/mean"] == 0.5
        assert row["critic/score/mean"] == pytest.approx(row["reward/score/mean"] + 1.0)


@pytest.mark.usefixtures("verl")
def test_the_orphan_of_an_actor_names_what_took_its_part() -> None:
    found = successors(*LONGEST)["toy/vendored/workers/dp_actor.py"]
    assert found.paths[:2] == (
        "toy/vendored/workers/engine/fsdp/transformer_impl.py",
        "toy/vendored/algorithms/losses.py",
    )
    assert "toy/vendored/workers/utils/padding.py" in found.paths
    assert not found.same
