"""A project from elsewhere: no command writes outside of it, into Git's files or through links, or runs its code."""

import json
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.pipeline import apply
from extractor.pipeline.plan import Reason, Verdict, plan_new
from extractor.project import base, disk, journal, lock
from extractor.project.disk import gate, is_inside
from extractor.usecases.upgrade.verdicts import UpgradeInputs, plan_upgrade, read_files_on_disk
from extractor.values.errors import CheckFailed, UsageError
from extractor.values.manifest import parse_manifest, read_toml
from extractor.values.tree import Tree, is_marked
from tests.docs.test_pages import REST
from tests.hostile.inputs import archive_of
from tests.lifecycle.worlds import (
    LABELS,
    MOVED,
    NEW,
    NEW_TREE,
    OLD,
    TEN,
    create,
    git,
    lock_of,
    picture,
    ready,
    template,
    text,
)

BAD = (
    "../out", "/etc/passwd", "a/../../b", ".git/config", ".GIT/hooks/post-checkout", "a/.git/config", ".git./config",
    ".git /config", "GIT~1/config", "a\\b", "C:/x", "a//b", "./a", "a/\u200b.py", "a\nb", "",
)  # fmt: skip


def test_no_command_may_touch_such_a_path_and_no_lock_name_it(tmp_path: Path) -> None:
    for path in BAD:
        assert not is_inside(path), path
        with pytest.raises(CheckFailed):
            gate(tmp_path, path)
    for path in ("a.py", ".github/workflows/ci.yml", ".gitignore", "a/git/b.py", "toy/.gitkeep"):
        assert gate(tmp_path, path) == tmp_path / path
    (tmp_path / "project/real").mkdir(parents=True)
    (tmp_path / "project/inside").symlink_to("real")
    (tmp_path / "project/outside").symlink_to(tmp_path)
    for path in ("inside/a", "outside/a", "outside/b/c"):
        with pytest.raises(CheckFailed, match="is a link"):
            gate(tmp_path / "project", path)
    with pytest.raises(CheckFailed):
        apply.create(tmp_path / "toy", plan_new(Tree.of([template(".git/config", b"x")])), lock_data=b"", base_data=b"")
    assert not (tmp_path / "toy").exists()
    for path in (*BAD[:9], ".vextract/base.zip", "vextract.lock"):
        with pytest.raises(UsageError, match="a path of a project's file"):
            lock.parse(lock.dump(lock_of(Tree.of([template(path, b"evil")]), OLD)))


def test_sync_writes_neither_into_git_nor_through_links(small: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(small / "toy/old_place")
    (small / "toy/old_place").symlink_to(tmp_path / "elsewhere")
    assert command(["sync", str(small)]) == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []
    tree = Tree.of([template(".git/commondir", b"/tmp/evil")])
    (small / lock.NAME).write_bytes(lock.dump(lock_of(tree, OLD)))
    (small / base.PATH).write_bytes(base.dump(base.collect_from_tree(tree)))
    assert command(["sync", str(small)]) == 2
    assert not (small / ".git").exists()


def forged(small: Path, **changed: object) -> None:
    """Put a journal into a project that is not as vextract wrote it."""
    entry = ready(small, NEW_TREE, NEW, MOVED)
    found = apply.build_journal(
        small, entry.plan, entry.seen, lock_data=entry.lock_data, base_data=entry.base_data, title="there"
    )
    journal.begin(small, found)
    with zipfile.ZipFile(small / journal.PATH) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    index = json.loads(members["journal.json"])
    index["changes"][0].update({key: value for key, value in changed.items() if key in ("path", "mode")})
    index.update({key: value for key, value in changed.items() if key in index})
    (small / journal.PATH).write_bytes(archive_of({**members, "journal.json": json.dumps(index).encode()}))


FORGED = (
    {"path": ".git/hooks/post-checkout"},
    {"path": "../outside"},
    {"path": "notes-of-the-owner.txt"},
    {"mode": 0o6777},
    {"mode": -1},
    {"made": [".git"]},
    {"made": ["../outside"]},
    {"emptied": [["../outside", 0o755]]},
    {"emptied": [["toy", 0o4777]]},
    {"conflicts": [{"path": "main.py", "beside": "../outside"}]},
)


@pytest.mark.parametrize("changed", FORGED, ids=str)
def test_a_forged_journal_is_refused(small: Path, changed: dict[str, object]) -> None:
    forged(small, **changed)
    before = picture(small)
    for flag in ("--continue", "--abort"):
        assert command(["upgrade", str(small), flag]) == 1
        assert picture(small) == before
    assert not (small.parent / "outside").exists()


def test_a_journal_does_not_write_through_links(small: Path, tmp_path: Path) -> None:
    forged(small)
    (small / "toy").rename(tmp_path / "elsewhere")
    (small / "toy").symlink_to(tmp_path / "elsewhere")
    before = picture(tmp_path / "elsewhere")
    for flag in ("--continue", "--abort"):
        assert command(["upgrade", str(small), flag]) == 1
        assert picture(tmp_path / "elsewhere") == before


def test_git_runs_nothing_that_a_repository_names(small: Path, tmp_path: Path, verl: None) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    trap.chmod(0o755)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        git(small, *arguments)
    traps = ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process", "core.pager", "diff.external")
    for key in traps:
        git(small, "config", key, str(trap))
    for hook in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        (small / f".git/hooks/{hook}").write_text(trap.read_text())
        (small / f".git/hooks/{hook}").chmod(0o755)
    (small / ".gitattributes").write_text("* filter=x\n")
    (small / "main.py").write_bytes(text("main", *TEN, "mine"))
    os.utime(small / "Makefile")
    assert command(["upgrade", str(small), "--dry-run", "--to", "0.6.1"]) in (0, 1)
    assert command(["upgrade", str(small), "--to", "0.6.1"]) == 2  # main.py is not committed
    assert not (tmp_path / "ran").exists()


def test_a_lock_does_not_have_a_file_of_the_owners_deleted(small: Path) -> None:
    """A lock from elsewhere may list any file with the digest that it has; only what vextract marked is deleted."""
    assert is_marked("main.py", b"# vextract:template - edit freely\n")
    assert not is_marked("notes.md", b"# My notes\n")
    notes = template("notes.md", b"# My notes\n")
    project = create(small.parent / "cloned", Tree.of([notes]), OLD)
    there, found = lock.read(project), read_files_on_disk(project, {"notes.md"})
    sides = UpgradeInputs(there, base.read(project, there), NEW_TREE, found, {}, LABELS, deletable=is_marked)
    (action,) = [action for action in plan_upgrade(sides).actions if action.path == "notes.md"]
    assert (action.verdict, action.reason) == (Verdict.ORPHAN, Reason.GONE)
    assert dict(action.side_files)["orphaned/notes.md"] == b"# My notes\n"


def test_what_is_typed_while_the_upgrade_writes_stays(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (small / "main.py").chmod(0o6755)
    entry = ready(small, NEW_TREE, NEW, MOVED)
    written = disk.write_new
    typed = text("typed", "meanwhile")

    def write_and_type(path: Path, data: bytes, mode: int | None = None) -> None:
        written(path, data, mode)
        if path == disk.name_scratch(small / "main.py"):
            (small / "main.py").write_bytes(typed)

    monkeypatch.setattr(disk, "write_new", write_and_type)
    before = picture(small)
    with pytest.raises(CheckFailed, match=r"main\.py: changed while the upgrade wrote it"):
        entry.run()
    assert (small / "main.py").read_bytes() == typed
    after = picture(small)
    assert {**after, "main.py": None} == {**before, "main.py": None}
    assert journal.read(small) is None
    monkeypatch.undo()
    ready(small, NEW_TREE, NEW, MOVED).run()
    assert stat.S_IMODE((small / "main.py").stat().st_mode) == 0o755, "modes stay plain"


def test_a_manifest_renders_no_templates_from_elsewhere() -> None:
    """The names of releases, engines and features are parts of paths below templates/."""
    for name in ("../../..", "0.6.1/../../x", "/etc", "", ".."):
        quoted = json.dumps(name)
        for key, was in (
            ("release", '"1.2.3"'),
            ("engines", '"hf"'),
            ("algorithms", '"grpo"'),
            ("roles", "[roles.x]"),
            ("features", "[features.x]"),
        ):
            now = f"[{key}.{quoted}]" if was[0] == "[" else quoted
            rest = '[layout]\n"a/" = "b/"\n[roles.x]\nsymbols = ["verl.a:b"]\n[features.x]\nsummary = "x"\n'
            text = f"{REST}{rest}".replace(was, now)
            assert quoted in text
            with pytest.raises(UsageError) as refused:
                parse_manifest(read_toml(text, "x.toml"), "x.toml")
            assert key in refused.value.message, (key, name)


def test_a_killed_sync_leaves_nothing_after_the_next(small: Path) -> None:
    target = small / "toy/protocol.py"
    data = target.read_bytes()
    target.unlink()
    disk.name_scratch(target).write_bytes(b"half")
    assert command(["sync", str(small)]) == 0
    assert target.read_bytes() == data
    assert not disk.name_scratch(target).exists()
