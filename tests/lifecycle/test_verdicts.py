"""What an upgrade decides, and that it does just that."""

import os
from pathlib import Path

import pytest

from extractor.pipeline.plan import Reason, Verdict
from extractor.usecases.upgrade.moved_files import Successor
from extractor.values.tree import Tree
from tests.lifecycle.worlds import (
    ACTOR,
    MOVED,
    NEW,
    NEW_TREE,
    OLD,
    OLD_TREE,
    TEN,
    create,
    expected,
    files_of,
    own,
    picture,
    ready,
    template,
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
    verdicts = upgraded(small)
    assert verdicts == {
        "Makefile": (Verdict.UPDATE, Reason.CHANGED),
        "main.py": (Verdict.UPDATE, Reason.CHANGED),
        "toy/added.py": (Verdict.ADD, Reason.NEW),
        "toy/custom/loss.py": (Verdict.ADD, Reason.NEW),
        "toy/custom/reward.py": (Verdict.KEEP, Reason.OWNED),
        "toy/dropped/alone.py": (Verdict.DELETE, Reason.GONE),
        "toy/gone.py": (Verdict.DELETE, Reason.GONE),
        "toy/new_place/actor.py": (Verdict.ADD, Reason.NEW),
        "toy/old_place/actor.py": (Verdict.DELETE, Reason.GONE),
        "toy/protocol.py": (Verdict.UPDATE, Reason.CHANGED),
        "toy/stays.py": (Verdict.KEEP, Reason.UNCHANGED),
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
        {
            "toy/protocol.py": text("# mine", *TEN, 11),
            "main.py": text("main, changed", *TEN, "mine = 1"),
            ".vextract/upgrade": None,
        },
    ),
    "edits that conflict": (
        {"main.py": text("mine", *TEN)},
        {"main.py": (Verdict.CONFLICT, Reason.BOTH)},
        {"main.py": ONE_CONFLICT.encode() + text(*TEN)},
    ),
    "an edit of what does not change": (
        {"toy/stays.py": text("edited")},
        {"toy/stays.py": (Verdict.KEEP, Reason.EDITED)},
        {"toy/stays.py": text("edited")},
    ),
    "an edit that is what comes": (
        {"Makefile": text("all: main")},
        {"Makefile": (Verdict.KEEP, Reason.UNCHANGED)},
        {"Makefile": text("all: main")},
    ),
    "an edit moves with its file": (
        {OLD_ACTOR: text("# mine", ACTOR, *TEN)},
        {OLD_ACTOR: (Verdict.DELETE, Reason.CARRIED), NEW_ACTOR: (Verdict.MERGE, Reason.CARRIED)},
        {NEW_ACTOR: text("# mine", ACTOR, *TEN, "more"), OLD_ACTOR: None, "toy/old_place": None},
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
    "a file of the owner's in the way": (
        {"toy/added.py": text("mine")},
        {"toy/added.py": (Verdict.CONFLICT, Reason.IN_THE_WAY)},
        {"toy/added.py": text("mine"), "toy/added.py.vextract-new": text("added")},
    ),
    "hooks are never written": (
        {"toy/custom/loss.py": text("mine already")},
        {"toy/custom/loss.py": (Verdict.KEEP, Reason.OWNED)},
        {"toy/custom/loss.py": text("mine already"), "toy/custom/reward.py": text("# yours")},
    ),
    "a hook that its owner removed": (
        {"toy/custom/reward.py": None},
        {"toy/custom/reward.py": (Verdict.KEEP, Reason.REMOVED)},
        {"toy/custom/reward.py": None},
    ),
    "no text": (
        {"main.py": b"\0\1\2"},
        {"main.py": (Verdict.CONFLICT, Reason.IN_THE_WAY)},
        {"main.py": b"\0\1\2"},
    ),
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


def test_an_edit_that_cannot_move_is_parked(small: Path) -> None:
    edited = text(ACTOR, *TEN, "mine is no Python")
    (small / OLD_ACTOR).write_bytes(edited)
    verdicts = upgraded(small)
    assert verdicts[OLD_ACTOR] == (Verdict.ORPHAN, Reason.GONE)
    assert verdicts[NEW_ACTOR] == (Verdict.ADD, Reason.NEW)
    assert (small / "orphaned/toy/old_place/actor.py").read_bytes() == edited
    assert (small / "orphaned/toy/old_place/actor.py.note").read_text() == (
        "toy/old_place/actor.py with your edits. verl 0.5.0 had this file, verl 0.6.1 does not.\n"
        "Its code came from upstream's verl/actor.py.\n"
        "Its part is now in toy/new_place/actor.py, but your edits cannot be merged automatically.\n"
        "Move by hand what you still need, then delete this note and the file beside it.\n"
        "\n"
        "Your edits were:\n"
        "\n"
        "--- a/toy/old_place/actor.py\n+++ b/toy/old_place/actor.py\n@@ -9,3 +9,4 @@\n 8\n 9\n 10\n+mine is no Python\n"
    )


@pytest.mark.parametrize(
    ("path", "note"),
    [
        ("toy/stays.py", "`vextract sync` brings it back"),
        ("Makefile", "it has changed in verl 0.6.1"),
        ("toy/gone.py", ""),
    ],
)
def test_what_its_owner_removed_stays_removed(small: Path, path: str, note: str) -> None:
    (small / path).unlink()
    entry = ready(small, NEW_TREE, NEW)
    (action,) = [action for action in entry.plan.actions if action.path == path]
    assert (action.verdict, action.reason, action.note) == (Verdict.KEEP, Reason.REMOVED, note)
    entry.run()
    assert not (small / path).exists()


@pytest.mark.parametrize("path", ["Makefile", "toy/gone.py", "toy/stays.py"])
def test_links_are_left_alone(small: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "elsewhere").write_bytes(text("behind a link"))
    (small / path).unlink()
    (small / path).symlink_to(tmp_path / "elsewhere")
    ready(small, NEW_TREE, NEW).run()
    assert (small / path).is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == text("behind a link")
    assert (small / f"{path}.vextract-new").exists() == (path == "Makefile")


def test_a_directory_in_a_files_place(small: Path) -> None:
    (small / "Makefile").unlink()
    (small / "Makefile").mkdir()
    ready(small, NEW_TREE, NEW).run()
    assert (small / "Makefile").is_dir()
    assert (small / "Makefile.vextract-new").exists()


def test_permissions_and_what_lies_beside_a_removed_file_stay(small: Path) -> None:
    (small / "main.py").chmod(0o755)
    (small / "Makefile").chmod(0o444)
    (small / "toy/dropped/__pycache__").mkdir()
    (small / "toy/dropped/mine.txt").write_bytes(text("mine"))
    upgraded(small)
    assert picture(small)["main.py"] == (0o755, text("main, changed", *TEN))
    assert picture(small)["Makefile"] == (0o444, text("all: main"))
    assert sorted(os.listdir(small / "toy/dropped")) == ["__pycache__", "mine.txt"]


def test_to_the_present_state(small: Path) -> None:
    (small / "toy/stays.py").write_bytes(text("edited"))
    (small / "Makefile").unlink()
    assert {action.verdict for action in ready(small, OLD_TREE, OLD).plan.actions} == {Verdict.KEEP}


def test_presets_of_what_the_owner_deleted_go(tmp_path: Path) -> None:
    estimator, loss = "@register_adv_est(AdvantageEstimator.{})", '@register_policy_loss("{}")'
    code = text(estimator.format("ONE"), loss.format("two"), estimator.format("THREE"), loss.format("four"), *TEN)
    pairs = {"one": "adv_estimator", "two": "loss_mode", "three": "adv_estimator", "four": "loss_mode"}
    presets = [template(f"config/preset/{name}.yaml", text(f"  {key}: {name}")) for name, key in pairs.items()]
    project = create(tmp_path / "small", Tree.of([vendored("algos.py", code), *presets]), OLD)
    (project / "toy/algos.py").write_bytes(text(estimator.format("THREE"), *TEN))
    (project / "config/preset/four.yaml").write_bytes(text("  loss_mode: four", "mine: 1"))
    ready(project, Tree.of([vendored("algos.py", code + b"11\n"), *presets]), NEW, {}).run()
    assert sorted(path.stem for path in (project / "config/preset").iterdir()) == ["four", "three"]
