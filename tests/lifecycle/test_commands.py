"""What users see of status, diff and upgrade, with small trees in the place of real ones."""

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from extractor.cli import upgrade
from extractor.pipeline import generate, source
from extractor.pipeline.generate import Generated
from extractor.pipeline.source import Source
from extractor.project import disk, journal, lock
from extractor.values import releases
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from extractor.values.tree import Tree
from tests.cli.conftest import Result, relock
from tests.lifecycle.worlds import (
    NEW,
    NEW_TREE,
    OLD,
    OLD_TREE,
    TEN,
    Faults,
    create,
    error,
    files_of,
    git,
    injected,
    picture,
    replace_once,
    template,
    text,
    vendored,
)

Run = Callable[..., Result]
TREES = {"0.5.0": OLD_TREE, "0.6.1": NEW_TREE}
CRITIC = vendored("critic.py", text("critic"))


@pytest.fixture(autouse=True)
def _small_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(options: Options, given: Source, manifest: Manifest) -> Generated:
        files = [*TREES[manifest.release], *([CRITIC] if "critic" in options.features else [])]
        return Generated(Tree.of(files), SimpleNamespace(dropped={}), (), (), options, given, manifest)  # type: ignore[arg-type]

    class NoSource:
        kind, sha256 = "wheel", "a" * 64

    monkeypatch.setattr(generate, "generate", small)
    monkeypatch.setattr(source, "open_source", lambda *arguments, **options: NoSource())
    monkeypatch.setattr(upgrade, "compare", lambda *arguments: None)
    monkeypatch.setattr(releases, "list_supported", lambda: ("0.5.0", "0.6.1"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")


@pytest.fixture
def edited(small: Path) -> Path:
    (small / "main.py").write_bytes(text("mine", *TEN))
    (small / "toy/protocol.py").write_bytes(text("# mine", *TEN))
    (small / "toy/gone.py").write_bytes(text("gone", *TEN, "mine"))
    (small / "Makefile").unlink()
    return small


VERDICT = "verl 0.5.0 -> verl 0.6.1: 1 in conflict, 1 orphaned, 1 merged, 2 deleted, 3 added, 3 kept"
ACTIONS = """\
conflict  main.py  (edited by you, and changed; 1 place to resolve)
orphan    toy/gone.py  (no longer part of the project; your version is orphaned/toy/gone.py)
merge     toy/protocol.py  (edited by you, and changed)
delete    toy/dropped/alone.py  (no longer part of the project)
delete    toy/old_place/actor.py  (no longer part of the project)
add       toy/added.py  (new)
add       toy/custom/loss.py  (new)
add       toy/new_place/actor.py  (new)
keep      Makefile  (removed by you; it has changed in verl 0.6.1)
keep      toy/custom/reward.py  (yours; its example has changed; yours stays)
"""
WAYS = (
    "resolve the conflicts (`vextract status` lists them), then run `vextract upgrade --continue`;"
    " or go back with `vextract upgrade --abort`\n"
)


def test_upgrade(run: Run, edited: Path) -> None:
    before = picture(edited)
    dry = run("upgrade", edited, "--dry-run", code=0)
    assert dry.out == f"{VERDICT} (nothing was written)\n{ACTIONS}"
    assert picture(edited) == before
    planned = json.loads(run("upgrade", edited, "--dry-run", "--json").out)["verdicts"]
    done = run("upgrade", edited, code=1)
    assert done.out == f"{VERDICT}\n{ACTIONS}"
    assert done.err == (
        f"{WAYS}orphans lie below orphaned/, each with a note\n"
        "files that you removed stay removed; `vextract sync` restores those of verl, `--removed` all\n"
    )
    assert all((edited / path).exists() for action in planned for path in action["writes"])
    gone = [action["path"] for action in planned if action["verdict"] in ("delete", "orphan")]
    assert not any((edited / path).exists() for path in gone)


STATUS = """\
verl 0.6.1, engine hf, algorithm grpo
upgrade waits for its conflicts to be resolved: verl 0.5.0 -> verl 0.6.1
3 clean, 1 edited, 1 missing, 1 conflicted, 1 orphaned, 2 yours
conflicted  main.py  (line 1)
missing     Makefile
edited      toy/protocol.py
orphaned    orphaned/toy/gone.py  (see orphaned/toy/gone.py.note)
yours       toy/custom/loss.py
yours       toy/custom/reward.py
"""


def test_conflicts_to_the_end(run: Run, edited: Path) -> None:
    before = picture(edited)
    run("upgrade", edited)
    assert run("status", edited).out == STATUS
    run("status", edited, "--check", code=1)
    second = run("upgrade", edited, "--to", "0.5.0", code=1)
    said = "error: an upgrade is not finished, it has conflicts: verl 0.5.0 -> verl 0.6.1\n"
    assert second.err == f"{said}hint: {WAYS}"
    assert run("upgrade", edited, "--continue", code=1).err == (
        "error: main.py:1: a marker is left\n"
        "hint: edit the file and remove the markers, then run `vextract upgrade --continue`\n"
    )
    undone, broken, gone = (Path(shutil.copytree(edited, edited.parent / name)) for name in ("undone", "no", "gone"))
    with injected(Faults(0, error(errno.ENOSPC), for_good=True, names=("write",))):
        full = run("upgrade", undone, "--abort", code=1).err
    assert "cannot be written: No space left on device; the upgrade is still half way" in full
    assert run("upgrade", undone, "--abort").out == "undone: verl 0.5.0 -> verl 0.6.1; every file is as it was\n"
    assert picture(undone) == before
    (broken / "main.py").write_text("fine = 1\ndef f(:\n")
    assert run("upgrade", broken, "--continue", code=0).err == "warning: main.py:2: no Python: invalid syntax\n"
    (gone / "main.py").unlink()
    assert "warning: main.py is not there: that counts" in run("upgrade", gone, "--continue", code=0).err
    (edited / "main.py").write_bytes(text("resolved", *TEN))
    assert run("upgrade", edited, "--continue").out == "finished: verl 0.5.0 -> verl 0.6.1\n"
    assert not (edited / ".vextract/upgrade").exists()
    assert lock.read(edited).options == NEW
    assert run("upgrade", edited).out == "up to date: verl 0.6.1, engine hf, algorithm grpo\n"


def test_other_commands_while_conflicts_are_open(run: Run, edited: Path) -> None:
    run("upgrade", edited)
    before = picture(edited)
    said = "verl 0.5.0 -> verl 0.6.1 has open conflicts: main.py:1: a marker is left"
    for name in ("verify", "export", "sync"):
        assert run(name, edited, code=1).err == f"error: {said}\nhint: {WAYS}"
    assert picture(edited) == before
    assert run("diff", edited, code=0).err.startswith(f"warning: {said}")


def test_a_new_file_beside_the_owners(run: Run, small: Path) -> None:
    (small / "toy/added.py").write_bytes(text("mine"))
    run("upgrade", small, code=1)
    assert "conflicted  toy/added.py  (the new version is toy/added.py.vextract-new)" in run("status", small).out
    refused = run("upgrade", small, "--continue")
    assert "error: toy/added.py: the new version lies in toy/added.py.vextract-new\n" in refused.err
    (small / "toy/added.py.vextract-new").unlink()
    run("upgrade", small, "--continue", code=0)
    assert (small / "toy/added.py").read_bytes() == text("mine")


def test_what_is_there_no_more(run: Run, edited: Path) -> None:
    (edited / "toy").rename(edited / "mine")
    refused = run("upgrade", edited, code=1)
    assert refused.err.startswith("error: toy/, the project's package by its vextract.lock, is not there\nhint: ")
    (edited / "mine").rename(edited / "toy")
    run("upgrade", edited)
    journal.discard(edited)
    assert "main.py:1: a marker of an earlier conflict is left\n" in run("upgrade", edited, "--to", "0.5.0", code=1).err
    (edited / ".vextract/base.zip").unlink()
    assert "damaged     .vextract/base.zip is missing" in run("status", edited).out
    assert "hint: run `vextract sync`" in run("upgrade", edited, code=1).err


def test_status(run: Run, small: Path) -> None:
    """Files of the owner's are named, but for what Git ignores; a hook that is gone is no drift."""
    result = run("status", small, "--check", code=0)
    assert result.out == (
        "verl 0.5.0, engine hf, algorithm grpo\n7 clean, 1 yours\nyours       toy/custom/reward.py\nnewer verl: 0.6.1\n"
    )
    assert result.err == "`vextract upgrade --dry-run` shows what an upgrade would do\n"
    report = json.loads(run("status", small, "--json").out)
    assert (report["drift"], report["newer"], report["newer_vextract"]) == (False, ["0.6.1"], None)
    (small / ".gitignore").write_text("*.log\n/data/\n", encoding="utf-8")
    for path in ("notes.txt", "toy/data/c", "toy/__pycache__/x.pyc", "outputs/1/log", ".env", "a.log", "kept.log"):
        (small / path).parent.mkdir(parents=True, exist_ok=True)
        (small / path).write_bytes(b"")
    (small / "toy/custom/reward.py").unlink()
    for kept in ([], ["kept.log"]):
        if kept:  # committed in spite of what is ignored
            git(small, "init", "-q")
            git(small, "add", "--force", "kept.log")
        shown = run("status", small, "--check", code=0).out
        yours = [line.split()[1] for line in shown.splitlines() if line.startswith("yours")]
        assert yours == [*kept, "notes.txt", "toy/custom/reward.py", "toy/data/c"]


def test_options_change(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("upgrade", small, "--with", "critic").out == (
        "verl 0.5.0 (without critic) -> verl 0.5.0 (with critic): no conflicts, 1 added, 8 kept\n"
        "add       toy/critic.py  (new)\n"
    )
    (small / "toy/critic.py").write_bytes(text("mine"))
    run("upgrade", small, "--without", "critic", code=0)
    assert (small / "orphaned/toy/critic.py").read_bytes() == text("mine")
    run("upgrade", small, "--algorithm", "ppo", code=0)
    assert lock.read(small).options == Options("toy", "0.5.0", algorithm="ppo", features=("critic",))
    # A feature that vextract has no longer goes by itself, and newer templates are an upgrade.
    relock(small, options=replace(OLD, features=("critic", "gone")), vextract="0.0.1")
    assert "newer templates: vextract 0.0.1 wrote this project, this is 0.1.0" in run("status", small).out
    monkeypatch.setitem(TREES, "0.5.0", Tree.of([*OLD_TREE, vendored("better.py", text("better"))]))
    shown = run("upgrade", small, "--to", "0.5.0").out
    assert "features that vextract no longer has: gone" in shown
    assert "\nadd       toy/better.py  (new)\n" in shown
    assert (lock.read(small).vextract, lock.read(small).options.features) == ("0.1.0", ("critic",))


def test_a_feature_is_added_and_removed(run: Run, small: Path) -> None:
    run("add", "critic", "qlora", "--project", small, code=0)
    assert (small / CRITIC.path).read_bytes() == CRITIC.data
    wrong = run("remove", "critic", str(small), code=2)
    assert f"hint: give the project by `--project {small}`" in wrong.err
    run("remove", "critic", "qlora", "--project", small, code=0)
    assert not (small / CRITIC.path).exists()
    run("remove", "export_model", "lora", "--project", small, code=0)
    assert lock.read(small).options.features == ()


WRONG = (
    (["--to", "9"], "verl 9 is not supported", "supported: 0.5.0, 0.6.1"),
    (["--with", "critc"], "has no feature 'critc'", "did you mean `critic`"),
    (["--with", "critic", "--without", "critic"], "contradict", "drop one of the two"),
    (["--abort", "--to", "0.5.0"], "--abort takes no other option", "run `vextract upgrade --abort`"),
    (["--continue"], "nothing to continue: no upgrade is going on", "`vextract status`"),
    (["--algorithm", "ppo", "--without", "critic"], "--without critic: algorithm ppo needs it", "choose another"),
)


def test_usage_errors(run: Run, small: Path) -> None:
    before = picture(small)
    for arguments, message, hint in WRONG:
        result = run("upgrade", small, *arguments, code=2)
        assert message in result.err
        assert f"hint: {hint}" in result.err
    with disk.lock_exclusively(small) as free:
        assert free
        for flags in ([], ["--dry-run"], ["--continue"], ["--abort"]):
            said = "error: another vextract is upgrading this project\nhint: wait until it has ended, then try again\n"
            assert run("upgrade", small, *flags, code=1).err == said
    assert picture(small) == before


def test_uncommitted_changes(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(small, "init", "-q")
    # Nothing is committed, but nothing is edited either.
    assert "not committed" not in run("upgrade", small, "--dry-run").err
    git(small, "add", "-A")
    git(small, "commit", "-qm", "all of it")
    (small / "toy/custom/reward.py").write_bytes(text("mine"))
    (small / "notes.txt").write_bytes(text("mine"))
    assert "not committed" not in run("upgrade", small, "--dry-run").err
    (small / "main.py").write_bytes(text("main", *TEN, "mine"))
    assert "main.py: changed and not committed: commit first" in run("upgrade", small, "--dry-run").err
    assert run("upgrade", small, code=2).err == (
        "error: main.py: changed and not committed\n"
        "hint: commit first, so that you can tell the upgrade's changes from yours; or pass --allow-dirty\n"
    )
    git(small, "rm", "-q", "--cached", "main.py")
    before = picture(small)
    assert "main.py: changed and not committed" in run("upgrade", small).err
    # In a container the repository may be another user's: then nobody knows what is committed.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert run("upgrade", small, code=2).err.startswith("error: Git does not say whether all changes are committed: ")
    assert picture(small) == before
    run("upgrade", small, "--allow-dirty", code=0)


CONFIG, OPTIM = "config/ppo_trainer.yaml", "actor_rollout_ref.actor.optim"


def _config(*lines: str) -> Tree:
    text = "actor_rollout_ref:\n  actor:\n    optim:\n" + "".join(f"      {line}\n" for line in lines)
    return Tree.of([*OLD_TREE, template(CONFIG, text.encode())])


SETTINGS = f"""
your settings
  moved     {OPTIM}.warmup_style: cosine  (now {OPTIM}.lr_scheduler_type)
  lost      {OPTIM}.gone: 2  (verl 0.6.1 has no such setting)
  to change config/flat.yaml:2  ({OPTIM}.gone no longer exists)
"""


def test_what_becomes_of_settings_is_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a file of the owner's that is rewritten beside a conflict is as it was after an --abort."""
    old = _config("lr: 1", "warmup_style: constant", "gone: 1")
    monkeypatch.setitem(TREES, "0.5.0", old)
    monkeypatch.setitem(TREES, "0.6.1", _config("lr: 2", "lr_scheduler_type: constant"))
    project = create(tmp_path / "toy", old, OLD)
    preset, flat = project / "config/preset/mine.yaml", project / "config/flat.yaml"
    preset.parent.mkdir()
    preset.write_text("# @package _global_\nactor_rollout_ref:\n  actor:\n    optim:\n      warmup_style: cosine\n")
    flat.write_text("defaults: [mine]\nactor_rollout_ref: {actor: {optim: {gone: 3}}}\n")
    replace_once(project / CONFIG, "gone: 1", "gone: 2")
    assert run("upgrade", project, "--dry-run", code=0).out.endswith(SETTINGS)
    replace_once(project / CONFIG, "lr: 1", "lr: 3")
    before = picture(project)
    settings = json.loads(run("upgrade", project, "--json", code=1).out)["settings"]
    assert [item["new_key"] for item in settings["moved"]] == [f"{OPTIM}.lr_scheduler_type"]
    assert [(item["file"], item["line"]) for item in settings["to_change"]] == [("config/flat.yaml", 2)]
    assert "lr_scheduler_type: cosine" in preset.read_text()
    run("upgrade", project, "--abort", code=0)
    assert picture(project) == before
    run("upgrade", project)
    # What is left is the marker, and not the former version that is parked for the setting that has no place.
    assert run("upgrade", project, "--continue").err.startswith(f"error: {CONFIG}:4: a marker is left\n")
    (project / CONFIG).write_text("actor_rollout_ref: {actor: {optim: {lr: 3}}}\n")
    run("upgrade", project, "--continue", code=0)
    assert (project / "orphaned" / CONFIG).is_file()


def test_the_journal_is_none_of_gits_business(run: Run, edited: Path) -> None:
    git(edited, "init", "-q")
    run("upgrade", edited, "--allow-dirty")
    listed = git(edited, "status", "--porcelain", "-uall")
    assert ".vextract/base.zip" in listed
    assert ".vextract/upgrade" not in listed
    # Every other command refuses where it is half way.
    found = journal.read(edited)
    assert found is not None
    before = picture(edited)
    with pytest.raises(ValueError, match="is no file of the project"):  # no command could read such a journal
        journal.begin(edited, replace(found, changes=(journal.Change("toy/x.py", b"", b"", None), *found.changes)))
    assert picture(edited) == before
    (edited / lock.NAME).write_bytes(found.lock.old or b"")
    for words in (["sync"], ["diff"], ["upgrade"], ["upgrade", "--dry-run"]):
        assert run(words[0], edited, *words[1:], code=1).err == (
            "error: an upgrade was interrupted half way: verl 0.5.0 -> verl 0.6.1\n"
            "hint: finish it with `vextract upgrade --continue`, or go back with `vextract upgrade --abort`\n"
        )
    assert "upgrade interrupted half way: verl 0.5.0 -> verl 0.6.1" in run("status", edited).out


DIFF = "--- a/main.py\n+++ b/main.py\n@@ -1,4 +1,4 @@\n-main\n+mine\n 1\n 2\n 3\n"


def test_diff(run: Run, edited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("diff", edited / "main.py").out == DIFF
    made = json.loads(run("diff", edited, "--json").out)
    assert (made[0]["path"], made[1]) == ("Makefile", {"path": "main.py", "diff": DIFF})
    assert "yours: nothing was emitted" in run("diff", edited / "toy/custom/reward.py", code=2).err
    assert "not a file that vextract" in run("diff", edited / "x.txt", code=2).err
    # It is a patch.
    (edited / "toy/protocol.py").write_bytes("1\r\n2  \né".encode())
    (tmp_path / "patch").write_text(run("diff", edited).out, newline="")
    plain = create(tmp_path / "plain", OLD_TREE, OLD)
    git(plain, "init", "-q")
    git(plain, "apply", str(tmp_path / "patch"))
    changed = {path: data for path, data in files_of(plain).items() if not path.startswith(".git/")}
    assert changed == files_of(edited)
    monkeypatch.chdir(edited / "toy")
    assert run("diff", "../main.py").out == DIFF
    assert run("diff", ".").out.count("+++ ") == 2
    assert run("diff").out.count("+++ ") == 4
