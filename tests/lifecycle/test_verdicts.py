"""What an upgrade decides, and that it does just that."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extractor.pipeline.plan import Plan, Reason, Verdict
from extractor.project import base
from extractor.project.side_files import NOTE_SUFFIX
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.verdicts import FileOnDisk, UpgradeInputs, plan_upgrade
from extractor.values.tree import File, FileKind, Tree
from tests.lifecycle.worlds import (
    ACTOR,
    LABELS,
    MOVED,
    NEW,
    NEW_TREE,
    OLD,
    TEN,
    create,
    expected,
    files_of,
    lock_of,
    own,
    picture,
    ready,
    templates,
    text,
    vendored,
)

Files = dict[str, bytes | None]


def upgraded(project: Path, successors: dict[str, Successor] | None = MOVED) -> dict[str, tuple[Verdict, Reason]]:
    """Upgrade, check that the plan was kept to, and return its verdicts."""
    entry = ready(project, NEW_TREE, NEW, successors)
    before = picture(project)
    entry.run()
    assert own(files_of(project)) == expected(before, entry.plan)
    return {action.path: (action.verdict, action.reason) for action in entry.plan.actions}


def test_untouched(small: Path, tmp_path: Path) -> None:
    by_verdict: dict[Verdict, list[str]] = {}
    for path, (verdict, _) in upgraded(small).items():
        by_verdict.setdefault(verdict, []).append(path)
    assert by_verdict == {
        Verdict.UPDATE: ["Makefile", "main.py", "toy/protocol.py"],
        Verdict.ADD: ["toy/added.py", "toy/custom/loss.py", NEW_ACTOR],
        Verdict.KEEP: ["toy/custom/reward.py", "toy/stays.py"],
        Verdict.DELETE: ["toy/dropped/alone.py", "toy/gone.py", OLD_ACTOR],
    }
    fresh = picture(create(tmp_path / "fresh", NEW_TREE, NEW))
    found = picture(small)
    found["toy/custom/reward.py"] = fresh["toy/custom/reward.py"]
    assert found == fresh


OLD_ACTOR, NEW_ACTOR = "toy/old_place/actor.py", "toy/new_place/actor.py"
ONE_CONFLICT = (
    "<<<<<<< yours, on verl 0.5.0\nmine\n||||||| verl 0.5.0\nmain\n=======\nmain, changed\n>>>>>>> verl 0.6.1\n"
)
# What the owner has done, None for a file that is gone; the verdicts; and what is there afterwards.
CASES: dict[str, tuple[Files, dict[str, tuple[Verdict, Reason]], Files]] = {
    "edits that merge": (
        {"toy/protocol.py": text("# mine", *TEN), "main.py": text("main", *TEN, "mine = 1")},
        {"toy/protocol.py": (Verdict.MERGE, Reason.BOTH)},
        {"toy/protocol.py": text("# mine", *TEN, 11), "main.py": text("main, changed", *TEN, "mine = 1")},
    ),
    "edits that conflict": (
        {"main.py": text("mine", *TEN)},
        {"main.py": (Verdict.CONFLICT, Reason.BOTH)},
        {"main.py": ONE_CONFLICT.encode() + text(*TEN)},
    ),
    "edits of what does not change, and of what comes": (
        {"toy/stays.py": text("edited"), "Makefile": text("all: main")},
        {"toy/stays.py": (Verdict.KEEP, Reason.EDITED), "Makefile": (Verdict.KEEP, Reason.UNCHANGED)},
        {"toy/stays.py": text("edited"), "Makefile": text("all: main")},
    ),
    "an edit moves with its file": (
        {OLD_ACTOR: text("# mine", ACTOR, *TEN)},
        {OLD_ACTOR: (Verdict.DELETE, Reason.CARRIED), NEW_ACTOR: (Verdict.MERGE, Reason.CARRIED)},
        {NEW_ACTOR: text("# mine", ACTOR, *TEN, "more"), OLD_ACTOR: None, "toy/old_place": None},
    ),
    "an edit that cannot move is parked": (
        {OLD_ACTOR: text(ACTOR, *TEN, "mine is no Python")},
        {OLD_ACTOR: (Verdict.ORPHAN, Reason.GONE), NEW_ACTOR: (Verdict.ADD, Reason.NEW)},
        {f"orphaned/{OLD_ACTOR}": text(ACTOR, *TEN, "mine is no Python"), OLD_ACTOR: None},
    ),
    "a layout of one's own is nothing to park": (
        {"toy/gone.py": text("(gone)", *TEN).replace(b"\n", b"\r\n")},
        {"toy/gone.py": (Verdict.DELETE, Reason.GONE)},
        {"orphaned": None},
    ),
    "a place where something of the owner's lies takes no edits": (
        {OLD_ACTOR: text("# mine", ACTOR, *TEN), NEW_ACTOR: text("my own")},
        {OLD_ACTOR: (Verdict.ORPHAN, Reason.GONE), NEW_ACTOR: (Verdict.CONFLICT, Reason.IN_THE_WAY)},
        {NEW_ACTOR: text("my own"), f"{NEW_ACTOR}.vextract-new": text(ACTOR, *TEN, "more")},
    ),
    "orphans do not replace each other": (
        {"orphaned/toy/gone.py": text("an older one"), "toy/gone.py": text("edited")},
        {"toy/gone.py": (Verdict.ORPHAN, Reason.GONE)},
        {"orphaned/toy/gone.py": text("an older one"), "orphaned/toy/gone.py.2": text("edited")},
    ),
    "hooks are never written, nor is one that its owner removed": (
        {"toy/custom/loss.py": text("mine already"), "toy/custom/reward.py": None},
        {"toy/custom/loss.py": (Verdict.KEEP, Reason.OWNED), "toy/custom/reward.py": (Verdict.KEEP, Reason.REMOVED)},
        {"toy/custom/loss.py": text("mine already"), "toy/custom/reward.py": None},
    ),
    "no text": ({"main.py": b"\0\1\2"}, {"main.py": (Verdict.CONFLICT, Reason.IN_THE_WAY)}, {"main.py": b"\0\1\2"}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_owner_has_done(small: Path, case: str) -> None:
    before, verdicts, after = CASES[case]
    for path, data in before.items():
        if data is None:
            (small / path).unlink()
        else:
            (small / path).parent.mkdir(parents=True, exist_ok=True)
            (small / path).write_bytes(data)
    found = upgraded(small)
    assert {path: found[path] for path in verdicts} == verdicts
    assert {path: (small / path).read_bytes() if (small / path).exists() else None for path in after} == after


def test_what_its_owner_removed_stays_removed(small: Path) -> None:
    notes = {"toy/stays.py": "`vextract sync` brings it back", "Makefile": "it has changed in verl 0.6.1"}
    for path in notes:
        (small / path).unlink()
    entry = ready(small, NEW_TREE, NEW)
    found = {action.path: action for action in entry.plan.actions}
    for path, note in notes.items():
        action = found[path]
        assert (action.verdict, action.reason, action.note) == (Verdict.KEEP, Reason.REMOVED, note)
    entry.run()
    assert not any((small / path).exists() for path in notes)


def test_links_and_directories_are_left_alone(small: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(text("behind a link"))
    links = ("Makefile", "toy/gone.py", "toy/stays.py")
    for path in links:
        (small / path).unlink()
        (small / path).symlink_to(tmp_path / "elsewhere")
    (small / "main.py").unlink()
    (small / "main.py").mkdir()
    ready(small, NEW_TREE, NEW).run()
    assert all((small / path).is_symlink() for path in links)
    assert (tmp_path / "elsewhere").read_bytes() == text("behind a link")
    assert (small / "main.py").is_dir()
    beside = {path for path in (*links, "main.py") if (small / f"{path}.vextract-new").exists()}
    assert beside == {"Makefile", "main.py"}


def test_permissions_and_what_lies_beside_a_removed_file_stay(small: Path) -> None:
    (small / "main.py").chmod(0o755)
    (small / "Makefile").chmod(0o444)
    (small / "toy/dropped/mine.txt").write_bytes(text("mine"))
    upgraded(small)
    assert picture(small)["main.py"] == (0o755, text("main, changed", *TEN))
    assert picture(small)["Makefile"] == (0o444, text("all: main"))
    assert os.listdir(small / "toy/dropped") == ["mine.txt"]


def test_presets_of_what_the_owner_deleted_go(tmp_path: Path) -> None:
    estimator, loss = "@register_adv_est(AdvantageEstimator.{})", '@register_policy_loss("{}")'
    code = text(estimator.format("ONE"), loss.format("two"), estimator.format("THREE"), loss.format("four"), *TEN)
    pairs = {"one": "adv_estimator", "two": "loss_mode", "three": "adv_estimator", "four": "loss_mode"}
    presets = templates({f"config/preset/{name}.yaml": f"  {key}: {name}\n" for name, key in pairs.items()})
    project = create(tmp_path / "small", Tree.of([vendored("algos.py", code), *presets]), OLD)
    (project / "toy/algos.py").write_bytes(text(estimator.format("THREE"), *TEN))
    (project / "config/preset/four.yaml").write_bytes(text("  loss_mode: four", "mine: 1"))
    ready(project, Tree.of([vendored("algos.py", code + b"11\n"), *presets]), NEW, {}).run()
    assert sorted(path.stem for path in (project / "config/preset").iterdir()) == ["four", "three"]


# Whatever the three sides are: nothing of the owner's is lost, and planning once more changes nothing.


def kind_of(path: str, data: bytes) -> File:
    return File(path, FileKind.HOOK if path == "hook.py" else FileKind.VENDORED, data, f"verl/{path}")


PATHS = ("a.py", "b.py", "c/d.py", "hook.py")
MIDDLE = b"2\n3\n4\n5\n6\n"
CONTENT = st.sampled_from(
    [b"1\n" + MIDDLE, b"one\n" + MIDDLE, b"1\n" + MIDDLE + b"7\n", b"1\n" + MIDDLE + b"7\n8\n", b"y\n"]
)
TREES = st.fixed_dictionaries({path: st.one_of(CONTENT, CONTENT, CONTENT, st.none()) for path in PATHS}).map(
    lambda files: Tree.of([kind_of(path, data) for path, data in files.items() if data is not None])
)
# What an owner does to a file; to one that was not emitted, only "new" is done.
DEEDS = st.fixed_dictionaries(
    {path: st.sampled_from(["nothing", "remove", "top", "bottom", "first line", "binary", "new"]) for path in PATHS}
)
SUCCESSORS = st.dictionaries(st.sampled_from(PATHS[:3]), st.sampled_from(PATHS), max_size=2)


def on_disk(old: Tree, deeds: dict[str, str]) -> dict[str, bytes]:
    """What was emitted, with what the owner made of it."""
    files: dict[str, bytes | None] = {path: b"mine\n" for path, deed in deeds.items() if deed == "new"}
    for path, data in ((file.path, file.data) for file in old):
        below = data.split(b"\n", 1)[1]
        made = {"remove": None, "top": b"mine\n" + data, "bottom": data + b"mine\n", "first line": b"mine\n" + below}
        files[path] = {**made, "binary": b"\0\nmine\n"}.get(deeds[path], data)
    return {path: data for path, data in files.items() if data is not None}


def planned(old: Tree, new: Tree, disk: dict[str, bytes], successors: dict[str, str]) -> Plan:
    found = {path: FileOnDisk(data) for path, data in disk.items()}
    moved = {path: Successor((place,), same=True) for path, place in successors.items()}
    return plan_upgrade(UpgradeInputs(lock_of(old, OLD), base.collect_from_tree(old), new, found, moved, LABELS))


def applied(disk: dict[str, bytes], plan: Plan) -> dict[str, bytes]:
    files = {path: data for path, data in disk.items() if path not in plan.removals()}
    return {**files, **plan.writes()}


@given(TREES, TREES, DEEDS, SUCCESSORS)
@settings(max_examples=400)
def test_plans(old: Tree, new: Tree, deeds: dict[str, str], successors: dict[str, str]) -> None:
    disk = on_disk(old, deeds)
    plan = planned(old, new, disk, successors)
    after = applied(disk, plan)
    emitted = base.collect_from_tree(old)
    assert {action.path for action in plan.actions} == {file.path for file in (*old, *new)}
    assert not set(plan.writes()) & set(plan.removals())
    # Hooks, and files that are none of vextract's, are never written over or removed.
    assert all(after[path] == disk[path] for path in disk.keys() - emitted.keys())
    for path, data in disk.items():
        if data != emitted.get(path) and b"mine" in data:
            new_lines = {*data.split(b"\n")} - {*emitted.get(path, b"").split(b"\n")}
            places = [found for name, found in after.items() if not name.endswith(NOTE_SUFFIX)]
            assert any(new_lines <= {*found.split(b"\n")} for found in places)
    if not plan.paths(Verdict.CONFLICT):
        found = {path: FileOnDisk(data) for path, data in after.items() if path in PATHS}
        again = plan_upgrade(UpgradeInputs(lock_of(new, NEW), base.collect_from_tree(new), new, found, {}, LABELS))
        assert {action.verdict for action in again.actions} <= {Verdict.KEEP}
