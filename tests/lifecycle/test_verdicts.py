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


def test_there_and_back(small: Path) -> None:
    before = picture(small)
    upgraded(small)
    ready(small, OLD_TREE, OLD).run()
    after = picture(small)
    # A hook that has come stays: it is the owner's.
    del after["toy/custom/loss.py"]
    assert after == before


def test_edits_that_merge(small: Path) -> None:
    (small / "toy/protocol.py").write_bytes(text("# mine", *TEN))
    (small / "main.py").write_bytes(text("main", *TEN, "mine = 1"))
    verdicts = upgraded(small)
    assert verdicts["toy/protocol.py"] == (Verdict.MERGE, Reason.BOTH)
    assert (small / "toy/protocol.py").read_bytes() == text("# mine", *TEN, 11)
    assert (small / "main.py").read_bytes() == text("main, changed", *TEN, "mine = 1")
    assert not (small / ".vextract/upgrade").exists()


def test_edits_that_conflict(small: Path) -> None:
    (small / "main.py").write_bytes(text("mine", *TEN))
    assert upgraded(small)["main.py"] == (Verdict.CONFLICT, Reason.BOTH)
    assert (small / "main.py").read_text() == (
        "<<<<<<< yours, on verl 0.5.0\nmine\n||||||| verl 0.5.0\nmain\n=======\nmain, changed\n>>>>>>> verl 0.6.1\n"
        + text(*TEN).decode()
    )


def test_an_edit_of_what_does_not_change_stays(small: Path) -> None:
    (small / "toy/stays.py").write_bytes(text("edited"))
    assert upgraded(small)["toy/stays.py"] == (Verdict.KEEP, Reason.EDITED)
    assert (small / "toy/stays.py").read_bytes() == text("edited")


def test_an_edit_that_is_what_comes(small: Path) -> None:
    (small / "Makefile").write_bytes(text("all: main"))
    assert upgraded(small)["Makefile"] == (Verdict.KEEP, Reason.UNCHANGED)


def test_an_edit_moves_with_its_file(small: Path) -> None:
    (small / "toy/old_place/actor.py").write_bytes(text("# mine", ACTOR, *TEN))
    verdicts = upgraded(small)
    assert verdicts["toy/old_place/actor.py"] == (Verdict.DELETE, Reason.CARRIED)
    assert verdicts["toy/new_place/actor.py"] == (Verdict.MERGE, Reason.CARRIED)
    assert (small / "toy/new_place/actor.py").read_bytes() == text("# mine", ACTOR, *TEN, "more")
    assert not (small / "toy/old_place").exists()


def test_an_edit_that_cannot_move_is_parked(small: Path) -> None:
    edited = text(ACTOR, *TEN, "mine is no Python")
    (small / "toy/old_place/actor.py").write_bytes(edited)
    verdicts = upgraded(small)
    assert verdicts["toy/old_place/actor.py"] == (Verdict.ORPHAN, Reason.GONE)
    assert verdicts["toy/new_place/actor.py"] == (Verdict.ADD, Reason.NEW)
    assert (small / "orphaned/toy/old_place/actor.py").read_bytes() == edited
    assert (small / "orphaned/toy/old_place/actor.py.note").read_text() == (
        "toy/old_place/actor.py, as you had edited it: it was part of verl 0.5.0 and is not of verl 0.6.1.\n"
        "Its code came from upstream's verl/actor.py.\n"
        "toy/new_place/actor.py has taken its part, and your edits do not fit in by themselves.\n"
        "Move by hand what you still need, then remove this file and the other.\n"
        "\n"
        "Your edits were:\n"
        "\n"
        "--- a/toy/old_place/actor.py\n+++ b/toy/old_place/actor.py\n@@ -9,3 +9,4 @@\n 8\n 9\n 10\n+mine is no Python\n"
    )


def test_a_layout_of_ones_own_is_nothing_to_park(small: Path) -> None:
    (small / "toy/gone.py").write_bytes(text("(gone)", *TEN).replace(b"\n", b"\r\n"))
    assert upgraded(small)["toy/gone.py"] == (Verdict.DELETE, Reason.GONE)
    assert not (small / "orphaned").exists()


def test_a_place_where_something_of_the_owners_lies_takes_no_edits(small: Path) -> None:
    (small / "toy/old_place/actor.py").write_bytes(text("# mine", ACTOR, *TEN))
    (small / "toy/new_place").mkdir()
    (small / "toy/new_place/actor.py").write_bytes(text("my own"))
    verdicts = upgraded(small)
    assert verdicts["toy/old_place/actor.py"] == (Verdict.ORPHAN, Reason.GONE)
    assert verdicts["toy/new_place/actor.py"] == (Verdict.CONFLICT, Reason.IN_THE_WAY)
    assert (small / "toy/new_place/actor.py").read_bytes() == text("my own")
    assert (small / "toy/new_place/actor.py.vextract-new").read_bytes() == text(ACTOR, *TEN, "more")


def test_orphans_do_not_replace_each_other(small: Path) -> None:
    (small / "orphaned/toy").mkdir(parents=True)
    (small / "orphaned/toy/gone.py").write_bytes(text("an older one"))
    (small / "toy/gone.py").write_bytes(text("edited"))
    upgraded(small)
    assert (small / "orphaned/toy/gone.py").read_bytes() == text("an older one")
    assert (small / "orphaned/toy/gone.py.2").read_bytes() == text("edited")
    assert (small / "orphaned/toy/gone.py.2.note").exists()


def test_a_file_of_the_owners_in_the_way(small: Path) -> None:
    (small / "toy/added.py").write_bytes(text("mine"))
    assert upgraded(small)["toy/added.py"] == (Verdict.CONFLICT, Reason.IN_THE_WAY)
    assert (small / "toy/added.py").read_bytes() == text("mine")
    assert (small / "toy/added.py.vextract-new").read_bytes() == text("added")


def test_hooks_are_never_written(small: Path) -> None:
    (small / "toy/custom/loss.py").write_bytes(text("mine already"))
    verdicts = upgraded(small)
    assert verdicts["toy/custom/loss.py"] == (Verdict.KEEP, Reason.OWNED)
    assert (small / "toy/custom/loss.py").read_bytes() == text("mine already")
    assert (small / "toy/custom/reward.py").read_bytes() == text("# yours")


def test_a_hook_that_its_owner_removed_does_not_come_back(small: Path) -> None:
    (small / "toy/custom/reward.py").unlink()
    assert upgraded(small)["toy/custom/reward.py"] == (Verdict.KEEP, Reason.REMOVED)
    assert not (small / "toy/custom/reward.py").exists()


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
    entry = ready(small, NEW_TREE, NEW)
    entry.run()
    assert (small / path).is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == text("behind a link")
    assert (small / f"{path}.vextract-new").exists() == (path == "Makefile")


def test_what_is_no_text_is_left_alone(small: Path) -> None:
    (small / "main.py").write_bytes(b"\0\1\2")
    assert upgraded(small)["main.py"] == (Verdict.CONFLICT, Reason.IN_THE_WAY)
    assert (small / "main.py").read_bytes() == b"\0\1\2"


def test_a_directory_in_a_files_place(small: Path) -> None:
    (small / "Makefile").unlink()
    (small / "Makefile").mkdir()
    entry = ready(small, NEW_TREE, NEW)
    entry.run()
    assert (small / "Makefile").is_dir()
    assert (small / "Makefile.vextract-new").exists()


def test_permissions_stay(small: Path) -> None:
    (small / "main.py").chmod(0o755)
    (small / "Makefile").chmod(0o444)
    upgraded(small)
    assert picture(small)["main.py"] == (0o755, text("main, changed", *TEN))
    assert picture(small)["Makefile"] == (0o444, text("all: main"))


def test_what_lies_beside_a_removed_file_stays(small: Path) -> None:
    (small / "toy/dropped/__pycache__").mkdir()
    (small / "toy/dropped/mine.txt").write_bytes(text("mine"))
    upgraded(small)
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
