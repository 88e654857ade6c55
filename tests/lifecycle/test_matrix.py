"""Thousands of random edits, over every step between releases and options: none is lost."""

import json
import random
import re
import zlib
from collections import Counter
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.pipeline.plan import Plan, Verdict
from extractor.project import journal
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.moved_files import find_moved_files as find
from extractor.values import releases
from extractor.values.tree import FileKind, Tree
from tests.lifecycle.edits import Edit, edit
from tests.lifecycle.releases import EVERY_STEP, NEW, OLD, VLLM, Configuration, generated, options_of
from tests.lifecycle.worlds import create, expected, files_of, lock_of, own, picture, ready
from tests.releases import EVERYTHING

ROUNDS = 6 if EVERYTHING else 3
FILES = 24


def hooks_of(tree: Tree) -> set[str]:
    return {file.path for file in tree if file.kind is FileKind.HOOK}


def successors(old: Configuration, new: Configuration) -> dict[str, Successor]:
    lock = lock_of(generated(old).tree, options_of(old))
    manifests = releases.load(old.release), releases.load(new.release)
    return find(lock, manifests[0], generated(new).tree, options_of(new), manifests[1])


def edited(project: Path, old: Tree, new: Tree, seed: int) -> list[Edit]:
    """Edit random files, and put some of the owner's where new ones will come."""
    chance = random.Random(seed)
    coming = {file.path: file.data for file in new}
    files = [file for file in old if file.data.count(b"\n") > 3]
    leaving = [file for file in files if file.path not in coming]
    chosen = {file.path: file for file in chance.sample(files, min(FILES, len(files)))}
    chosen.update({file.path: file for file in chance.sample(leaving, min(3, len(leaving)))})
    edits = []
    for path, file in sorted(chosen.items()):
        twice = {line for line, times in Counter(coming.get(path, b"").split(b"\n")).items() if times > 1}
        data, made = edit(path, file.data, chance.randint(1, 6), chance, twice)
        (project / path).write_bytes(data)
        edits += made
    arriving = sorted(set(coming) - {file.path for file in old})
    for path in chance.sample(arriving, min(2, len(arriving))):
        token = f"OWN_{chance.getrandbits(48):012x}".encode()
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_bytes(b"# " + token + b"\n")
        edits.append(Edit(path, "own file", token))
    return edits


def fate(item: Edit, plan: Plan, before: dict[str, bytes], after: dict[str, bytes]) -> str:
    """Where an edit stands afterwards: "tree", "conflict", "orphan", or "lost"."""
    (action,) = [action for action in plan.actions if action.path == item.path]
    places = {item.path: "tree"}
    if action.verdict is Verdict.DELETE:
        places = {re.sub("^your edits are in ", "", action.note): "tree"}
    elif action.verdict is Verdict.ORPHAN:
        places = {action.side_files[0][0]: "orphan"}
    elif action.verdict is Verdict.CONFLICT:
        places = {item.path: "conflict"}
    for path, name in places.items():
        data = after.get(path, b"")
        if name == "orphan" and data != before[item.path]:
            continue
        if item.kind == "deletion":
            # Gone as its owner wanted, or between the markers of a conflict, in the side that is not his.
            if item.token not in re.split(rb"\r?\n", data):
                return name
            if name == "conflict" and b"<<<<<<< yours" in data:
                return name
        elif item.token in data:
            return name
    return "lost"


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), EVERY_STEP, ids=lambda choice: str(choice))
def test_no_edit_is_lost(old: Configuration, new: Configuration, tmp_path: Path) -> None:
    before_tree, after_tree = generated(old).tree, generated(new).tree
    for number in range(ROUNDS):
        project = create(tmp_path / f"toy{number}", before_tree, options_of(old))
        seed = zlib.crc32(f"{old} {new} {number}".encode())
        edits = edited(project, before_tree, after_tree, seed)
        before = picture(project)
        bytes_before = files_of(project)
        entry = ready(project, after_tree, options_of(new), successors(old, new))
        if number == 0:  # working it out once more gives the same, and the first time has written nothing
            assert ready(project, after_tree, options_of(new), successors(old, new)).plan == entry.plan
        assert picture(project) == before
        entry.run()
        after = files_of(project)
        assert own(after) == expected(before, entry.plan)
        for path in hooks_of(before_tree):
            assert after[path] == bytes_before[path]
        for item in edits:
            assert fate(item, entry.plan, bytes_before, after) != "lost", (seed, item)
        found = journal.read(project)
        if found is not None:
            journal.go_back(project, found)
            journal.discard(project)
            assert picture(project) == before


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), EVERY_STEP, ids=lambda choice: str(choice))
def test_untouched(old: Configuration, new: Configuration, tmp_path: Path) -> None:
    project = create(tmp_path / "toy", generated(old).tree, options_of(old))
    before = picture(project)
    ready(project, generated(new).tree, options_of(new), successors(old, new)).run()
    fresh = picture(create(tmp_path / "fresh", generated(new).tree, options_of(new)))
    after = picture(project)
    # Hooks are written once, so those of the first release stay.
    for path in hooks_of(generated(old).tree):
        assert after[path] == before[path]
        after[path] = fresh.get(path, after[path])
    assert after == fresh
    again = ready(project, generated(new).tree, options_of(new))
    assert {action.verdict for action in again.plan.actions} == {Verdict.KEEP}
    ready(project, generated(old).tree, options_of(old), successors(new, old)).run()
    assert picture(project) == before


@pytest.mark.usefixtures("verl")
def test_the_role_says_where_a_file_went() -> None:
    found = successors(NEW, VLLM)
    place = "toy/vendored/workers/vllm_rollout_spmd.py"
    assert found["toy/vendored/workers/hf_rollout.py"] == Successor((place,), same=False)
    assert successors(OLD, NEW).keys() <= {file.path for file in generated(OLD).tree}


@pytest.mark.slow
@pytest.mark.thorough
def test_a_dry_run_tells_what_changed_in_the_algorithms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = create(tmp_path / "toy", generated(OLD).tree, options_of(OLD))
    before = picture(project)
    assert command(["upgrade", str(project), "--dry-run", "-v", "--to", "0.6.1"]) == 0
    shown = capsys.readouterr().out
    assert "update    toy/vendored/algorithms/core_algos.py  (changed)" in shown
    assert "  body       agg_loss\n" in shown
    assert command(["upgrade", str(project), "--dry-run", "--json", "--to", "0.6.1"]) == 0
    report = json.loads(capsys.readouterr().out)
    (change,) = [
        item for item in report["changes"]["symbols"] if item["new"] and item["new"]["symbol"].endswith(":kl_penalty")
    ]
    assert change["change"] == "body"
    assert picture(project) == before
