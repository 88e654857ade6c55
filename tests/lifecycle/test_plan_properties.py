"""Whatever the three sides are: nothing of the owner's is lost, and planning once more changes nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from extractor.pipeline.plan import Plan, Verdict
from extractor.project import base
from extractor.project.side_files import NOTE_SUFFIX
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.verdicts import FileOnDisk, UpgradeInputs, plan_upgrade
from extractor.values.tree import File, FileKind, Tree
from tests.lifecycle.worlds import LABELS, NEW, OLD, lock_of

PATHS = ("a.py", "b.py", "c/d.py", "hook.py")
MIDDLE = b"2\n3\n4\n5\n6\n"
CONTENT = st.sampled_from(
    [b"1\n" + MIDDLE, b"one\n" + MIDDLE, b"1\n" + MIDDLE + b"7\n", b"1\n" + MIDDLE + b"7\n8\n", b"y\n"]
)
TREES = st.fixed_dictionaries({path: st.one_of(CONTENT, CONTENT, CONTENT, st.none()) for path in PATHS}).map(
    lambda files: Tree.of(
        [
            File(path, FileKind.HOOK if path == "hook.py" else FileKind.VENDORED, data, f"verl/{path}")
            for path, data in files.items()
            if data is not None
        ]
    )
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
        made = {
            "remove": None,
            "top": b"mine\n" + data,
            "bottom": data + b"mine\n",
            "first line": b"mine\n" + data.split(b"\n", 1)[1],
            "binary": b"\0\nmine\n",
        }
        files[path] = made.get(deeds[path], data)
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
    for path in sorted({file.path for file in (*old, *new)}):
        # Hooks, and files that are none of vextract's, are never written over or removed.
        if path in disk and path not in emitted:
            assert after[path] == disk[path]
    for path, data in disk.items():
        if data != emitted.get(path) and b"mine" in data:
            places = [found for name, found in after.items() if not name.endswith(NOTE_SUFFIX)]
            assert any(set(data.split(b"\n")) - set(emitted.get(path, b"").split(b"\n")) <= _lines(x) for x in places)
    if not plan.paths(Verdict.CONFLICT):
        found = {path: FileOnDisk(data) for path, data in after.items() if path in PATHS}
        again = plan_upgrade(UpgradeInputs(lock_of(new, NEW), base.collect_from_tree(new), new, found, {}, LABELS))
        assert {action.verdict for action in again.actions} <= {Verdict.KEEP}


def _lines(data: bytes) -> set[bytes]:
    return set(data.split(b"\n"))


@given(TREES, TREES)
@settings(max_examples=50)
def test_without_edits_the_new_tree_comes_out(old: Tree, new: Tree) -> None:
    disk = {file.path: file.data for file in old}
    after = applied(disk, planned(old, new, disk, {}))
    hooks = {file.path: file.data for file in old if file.kind is FileKind.HOOK}
    assert after == {**{file.path: file.data for file in new}, **hooks}
