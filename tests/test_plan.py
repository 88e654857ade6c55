"""Verdicts, before anything is written."""

from pathlib import Path

from extractor.pipeline.plan import Plan, Reason, Verdict, plan_new, plan_sync, read_digests_on_disk
from extractor.project import base
from tests.test_lock import LOCK, TREE

EMITTED = base.collect_from_tree(TREE)


def verdicts(plan: Plan) -> dict[str, tuple[Verdict, Reason]]:
    return {action.path: (action.verdict, action.reason) for action in plan.actions}


def test_sync_restores_only_what_is_vendored_and_missing(tmp_path: Path) -> None:
    assert {action.verdict for action in plan_new(TREE).actions} == {Verdict.ADD}
    gone = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path))
    assert verdicts(gone) == {
        "LICENSE.verl": (Verdict.ADD, Reason.MISSING),
        "main.py": (Verdict.KEEP, Reason.REMOVED),
        "toy/custom/algorithms.py": (Verdict.KEEP, Reason.OWNED),
        "toy/protocol.py": (Verdict.ADD, Reason.MISSING),
    }
    removed = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path), removed=True)
    assert removed.paths(Verdict.ADD) == ("LICENSE.verl", "main.py", "toy/protocol.py")
    for path in ("LICENSE.verl", "main.py", "toy/protocol.py", "toy/custom/algorithms.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(EMITTED[path] if path == "LICENSE.verl" else b"# edited\n")
    there = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path))
    assert verdicts(there) == {
        "LICENSE.verl": (Verdict.KEEP, Reason.UNCHANGED),
        "main.py": (Verdict.KEEP, Reason.EDITED),
        "toy/custom/algorithms.py": (Verdict.KEEP, Reason.OWNED),
        "toy/protocol.py": (Verdict.KEEP, Reason.EDITED),
    }
    assert all(action.data is None for action in there.actions)


def test_what_is_no_file_in_a_files_place_is_an_edit(tmp_path: Path) -> None:
    (tmp_path / "LICENSE.verl").symlink_to("nowhere")
    (tmp_path / "toy/protocol.py").mkdir(parents=True)
    plan = plan_sync(LOCK, EMITTED, read_digests_on_disk(LOCK, tmp_path))
    assert plan.paths(Verdict.KEEP, Reason.EDITED) == ("LICENSE.verl", "toy/protocol.py")
