"""Verdicts, before anything is written."""

from pathlib import Path

import pytest

from extractor.pipeline.plan import Action, Plan, Reason, Verdict, plan_new, plan_sync, read_digests_on_disk
from extractor.project import base
from extractor.values.tree import FileKind
from tests.test_lock import LOCK, TREE

EMITTED = base.collect_from_tree(TREE)


def verdicts(plan: Plan) -> dict[str, tuple[Verdict, Reason]]:
    return {action.path: (action.verdict, action.reason) for action in plan.actions}


def write(project: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_bytes(data)


def test_new_adds_everything() -> None:
    plan = plan_new(TREE)
    assert [(action.path, action.data) for action in plan.actions] == [(file.path, file.data) for file in TREE]
    assert {action.verdict for action in plan.actions} == {Verdict.ADD}


def test_sync_restores_only_what_is_vendored(tmp_path: Path) -> None:
    plan = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path))
    assert verdicts(plan) == {
        "LICENSE.verl": (Verdict.ADD, Reason.MISSING),
        "main.py": (Verdict.KEEP, Reason.REMOVED),
        "toy/custom/algorithms.py": (Verdict.KEEP, Reason.OWNED),
        "toy/protocol.py": (Verdict.ADD, Reason.MISSING),
    }
    assert plan.paths(Verdict.ADD) == ("LICENSE.verl", "toy/protocol.py")
    plan = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path), removed=True)
    assert plan.paths(Verdict.ADD) == ("LICENSE.verl", "main.py", "toy/protocol.py")


def test_sync_keeps_what_is_there(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "LICENSE.verl": EMITTED["LICENSE.verl"],
            "main.py": b"# edited\n",
            "toy/protocol.py": b"# edited\n",
            "toy/custom/algorithms.py": b"# edited\n",
        },
    )
    plan = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path))
    assert verdicts(plan) == {
        "LICENSE.verl": (Verdict.KEEP, Reason.UNCHANGED),
        "main.py": (Verdict.KEEP, Reason.EDITED),
        "toy/custom/algorithms.py": (Verdict.KEEP, Reason.OWNED),
        "toy/protocol.py": (Verdict.KEEP, Reason.EDITED),
    }
    assert all(action.data is None for action in plan.actions)


def test_a_directory_or_a_dead_link_in_a_files_place_is_an_edit(tmp_path: Path) -> None:
    (tmp_path / "LICENSE.verl").symlink_to("nowhere")
    (tmp_path / "toy/protocol.py").mkdir(parents=True)
    plan = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path))
    assert plan.paths(Verdict.KEEP, Reason.EDITED) == ("LICENSE.verl", "toy/protocol.py")


def test_a_file_in_a_directorys_place(tmp_path: Path) -> None:
    (tmp_path / "toy").write_text("")
    assert read_digests_on_disk(LOCK, tmp_path) == {}


def test_plans_are_sorted() -> None:
    one = Action("b", Verdict.KEEP, FileKind.HOOK, Reason.OWNED)
    two = Action("a", Verdict.KEEP, FileKind.HOOK, Reason.OWNED)
    with pytest.raises(ValueError, match="sorted"):
        Plan((one, two))
    with pytest.raises(ValueError, match="unique"):
        Plan((one, one))
