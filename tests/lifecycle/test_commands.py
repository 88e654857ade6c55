"""What users see of status, diff and upgrade, with small trees in the place of real ones."""

import errno
import json
import shutil
import subprocess
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
from extractor.values import readers, releases
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from extractor.values.tree import Tree
from tests.cli.conftest import Result, relock
from tests.lifecycle.faults import Faults, error, injected
from tests.lifecycle.worlds import (
    NEW,
    NEW_TREE,
    OLD,
    OLD_TREE,
    TEN,
    create,
    files_of,
    git,
    picture,
    template,
    text,
    vendored,
)

Run = Callable[..., Result]
TREES = {"0.5.0": OLD_TREE, "0.6.1": NEW_TREE}
CRITIC = vendored("critic.py", text("critic"))
ENDS = (".vextract/base.zip", lock.NAME)


@pytest.fixture(autouse=True)
def _small_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(options: Options, given: Source, manifest: Manifest) -> Generated:
        files = [*TREES[manifest.release], *([CRITIC] if "critic" in options.features else [])]
        return Generated(Tree.of(files), SimpleNamespace(dropped={}), (), ())  # type: ignore[arg-type]

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


def test_upgrade(run: Run, edited: Path) -> None:
    before = picture(edited)
    dry = run("upgrade", edited, "--dry-run", code=0)
    assert dry.out == f"{VERDICT} (nothing was written)\n{ACTIONS}"
    assert picture(edited) == before
    planned = json.loads(run("upgrade", edited, "--dry-run", "--json").out)
    done = run("upgrade", edited, code=1)
    assert done.out == f"{VERDICT}\n{ACTIONS}"
    assert done.err == (
        "resolve the conflicts (`vextract status` lists them), then run `vextract upgrade --continue`;"
        " or go back with `vextract upgrade --abort`\n"
        "orphans lie below orphaned/, each with a note\n"
        "files that you removed stay removed; `vextract sync` restores those of verl, `--removed` all\n"
    )
    for action in planned["verdicts"]:
        for path in action["writes"]:
            assert (edited / path).exists()
        if action["verdict"] in ("delete", "orphan"):
            assert not (edited / action["path"]).exists()


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
    assert second.err == (
        "error: an upgrade is not finished, it has conflicts: verl 0.5.0 -> verl 0.6.1\n"
        "hint: resolve the conflicts (`vextract status` lists them), then run `vextract upgrade --continue`;"
        " or go back with `vextract upgrade --abort`\n"
    )
    refused = run("upgrade", edited, "--continue", code=1)
    assert refused.err == (
        "error: main.py:1: a marker is left\n"
        "hint: edit the file and remove the markers, then run `vextract upgrade --continue`\n"
    )
    twin = edited.parent / "twin"
    subprocess.run(["cp", "-a", edited, twin], check=True)
    assert run("upgrade", twin, "--abort").out == "undone: verl 0.5.0 -> verl 0.6.1; every file is as it was\n"
    assert picture(twin) == before
    (edited / "main.py").write_bytes(text("resolved", *TEN))
    assert run("upgrade", edited, "--continue").out == "finished: verl 0.5.0 -> verl 0.6.1\n"
    assert not (edited / ".vextract/upgrade").exists()
    assert lock.read(edited).options == NEW
    run("upgrade", edited, "--continue", code=2)
    assert run("upgrade", edited).out == "up to date: verl 0.6.1, engine hf, algorithm grpo\n"


def test_what_may_not_be_meant_of_a_resolved_conflict_is_said(run: Run, edited: Path) -> None:
    run("upgrade", edited)
    twin = edited.parent / "twin"
    shutil.copytree(edited, twin)
    (edited / "main.py").write_text("fine = 1\ndef f(:\n")
    done = run("upgrade", edited, "--continue")
    assert (done.code, done.err) == (0, "warning: main.py:2: no Python: invalid syntax\n")
    (twin / "main.py").unlink()
    done = run("upgrade", twin, "--continue")
    assert (done.code, done.err) == (
        0,
        "warning: main.py is not there: that counts as resolved, and the upgrade ends without it\n",
    )


def test_other_commands_while_conflicts_are_open(run: Run, edited: Path) -> None:
    run("upgrade", edited)
    before = picture(edited)
    said = "verl 0.5.0 -> verl 0.6.1 has open conflicts: main.py:1: a marker is left"
    for name in ("verify", "export", "sync"):
        refused = run(name, edited, code=1)
        assert refused.out == ""
        assert refused.err == (
            f"error: {said}\n"
            "hint: resolve the conflicts (`vextract status` lists them), then run `vextract upgrade --continue`;"
            " or go back with `vextract upgrade --abort`\n"
        )
    assert picture(edited) == before
    for arguments in (["diff", edited], ["explain", "main.py", edited]):
        result = run(*arguments, code=0)
        assert result.out
        assert result.err.startswith(f"warning: {said}")
    # Checking what one has resolved comes before --continue.
    (edited / "main.py").write_bytes(text("resolved = 1"))
    assert run("diff", edited, code=0).err == (
        "the conflicts of verl 0.5.0 -> verl 0.6.1 are resolved: `vextract upgrade --continue` ends the upgrade\n"
    )


def test_a_new_file_beside_the_owners(run: Run, small: Path) -> None:
    (small / "toy/added.py").write_bytes(text("mine"))
    run("upgrade", small, code=1)
    for move in ((), ("toy/added.py", "toy/own.py"), ("toy/own.py", "toy/added.py")):
        if move:
            (small / move[0]).rename(small / move[1])
        assert "conflicted  toy/added.py  (the new version is toy/added.py.vextract-new)" in run("status", small).out
    refused = run("upgrade", small, "--continue")
    assert "error: toy/added.py: the new version lies in toy/added.py.vextract-new\n" in refused.err
    (small / "toy/added.py.vextract-new").unlink()
    run("upgrade", small, "--continue", code=0)
    assert (small / "toy/added.py").read_bytes() == text("mine")
    assert json.loads(run("status", small, "--json").out)["drift"] is True


def test_what_is_there_no_more(run: Run, edited: Path) -> None:
    (edited / "toy").rename(edited / "mine")
    before = picture(edited)
    refused = run("upgrade", edited, code=1)
    assert refused.out == ""
    assert refused.err.startswith("error: toy/, the project's package by its vextract.lock, is not there\nhint: ")
    assert picture(edited) == before
    (edited / "mine").rename(edited / "toy")
    run("upgrade", edited)
    journal.discard(edited)
    refused = run("upgrade", edited, "--to", "0.5.0", code=1)
    assert "error: main.py:1: a marker of an earlier conflict is left\n" in refused.err
    (edited / ".vextract/base.zip").unlink()
    assert "damaged     .vextract/base.zip is missing" in run("status", edited).out
    assert "hint: run `vextract sync`" in run("upgrade", edited, code=1).err


def test_clean_status(run: Run, small: Path) -> None:
    result = run("status", small, "--check", code=0)
    assert result.out == (
        "verl 0.5.0, engine hf, algorithm grpo\n7 clean, 1 yours\nyours       toy/custom/reward.py\nnewer verl: 0.6.1\n"
    )
    assert result.err == "`vextract upgrade --dry-run` shows what an upgrade would do\n"
    report = json.loads(run("status", small, "--json").out)
    assert report["drift"] is False
    assert (report["newer"], report["newer_vextract"]) == (["0.6.1"], None)
    assert {file["state"] for file in report["files"]} == {"clean", "yours"}


def test_files_of_the_owner(run: Run, small: Path) -> None:
    for path in ("notes.txt", "toy/mine/model.py", "toy/__pycache__/x.pyc", "outputs/1/log", ".env"):
        (small / path).parent.mkdir(parents=True, exist_ok=True)
        (small / path).write_bytes(b"")
    shown = run("status", small, "--check", code=0).out
    yours = [line.split()[1] for line in shown.splitlines() if line.startswith("yours")]
    assert yours == ["notes.txt", "toy/custom/reward.py", "toy/mine/model.py"]
    (small / "toy/custom/reward.py").unlink()
    run("status", small, "--check", code=0)


@pytest.mark.parametrize("where", ["no repository", "own repository", "larger one", "one that ignores the project"])
def test_status_leaves_out_what_git_ignores(run: Run, small: Path, where: str) -> None:
    (small / ".gitignore").write_text("*.log\n/data/\n/toy/kept.log\n", encoding="utf-8")
    for path in ("a.log", "toy/b.log", "toy/data/c", "toy/:(top)d.log", "toy/kept.log", "notes.txt"):
        (small / path).parent.mkdir(parents=True, exist_ok=True)
        (small / path).write_bytes(b"")
    if where == "own repository":
        git(small, "init", "-q")
        git(small, "add", "--force", "toy/kept.log")
    elif where != "no repository":
        git(small.parent, "init", "-q")
    if where.startswith("one"):
        (small.parent / ".gitignore").write_text(f"/{small.name}/\n", encoding="utf-8")
    shown = {line.split()[-1] for line in run("status", small).out.splitlines() if line.startswith("yours")}
    kept = {"own repository": {"toy/kept.log"}}.get(where, set())
    everything = {"a.log", "toy/b.log", "toy/:(top)d.log", "toy/kept.log"} if where.startswith("one") else set()
    assert shown == {"toy/custom/reward.py", "toy/data/c", "notes.txt"} | kept | everything


def test_newer_templates_are_an_upgrade(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relock(small, vextract="0.0.1")
    assert "newer templates: vextract 0.0.1 wrote this project, this is 0.1.0" in run("status", small).out
    monkeypatch.setitem(TREES, "0.5.0", Tree.of([*OLD_TREE, vendored("better.py", text("better"))]))
    assert run("upgrade", small, "--to", "0.5.0").out == (
        "verl 0.5.0 (vextract 0.0.1) -> verl 0.5.0 (vextract 0.1.0): no conflicts, 1 added, 8 kept\n"
        "add       toy/better.py  (new)\n"
    )
    assert lock.read(small).vextract == "0.1.0"


def test_a_disk_that_is_full_on_the_way_back(run: Run, edited: Path) -> None:
    before = picture(edited)
    run("upgrade", edited)
    with injected(Faults(0, error(errno.ENOSPC), for_good=True, names=("write",))):
        result = run("upgrade", edited, "--abort")
    assert result.code == 1
    assert "cannot be written: No space left on device; the upgrade is still half way" in result.err
    run("upgrade", edited, "--abort", code=0)
    assert picture(edited) == before


def test_a_file_that_cannot_be_read(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = readers.read_bytes

    def forbidden(path: Path, *most: int) -> bytes:
        if path.name == "main.py":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *most)

    monkeypatch.setattr(readers, "read_bytes", forbidden)
    for command in ("upgrade", "diff"):
        result = run(command, small, code=1)
        assert result.err.startswith("error: main.py: cannot be read: Permission denied\n")
    assert "edited      main.py" in run("status", small).out


def test_options_change(run: Run, small: Path) -> None:
    assert run("upgrade", small, "--with", "critic").out == (
        "verl 0.5.0 (without critic) -> verl 0.5.0 (with critic): no conflicts, 1 added, 8 kept\n"
        "add       toy/critic.py  (new)\n"
    )
    assert lock.read(small).options == Options("toy", "0.5.0", features=("critic",))
    (small / "toy/critic.py").write_bytes(text("mine"))
    run("upgrade", small, "--without", "critic", code=0)
    assert (small / "orphaned/toy/critic.py").read_bytes() == text("mine")
    run("upgrade", small, "--algorithm", "ppo", code=0)
    assert lock.read(small).options == Options("toy", "0.5.0", algorithm="ppo", features=("critic",))
    assert "vllm" in run("upgrade", small, "--engine", "vllm", "--dry-run").out
    # A feature that vextract has no longer goes by itself.
    relock(small, options=replace(OLD, features=("critic", "gone")))
    assert "features that vextract no longer has: gone" in run("upgrade", small, "--to", "0.5.0").out
    assert lock.read(small).options.features == ("critic",)


def test_a_feature_is_added_and_removed(run: Run, small: Path) -> None:
    run("add", "critic", "--project", small, code=0)
    assert (small / CRITIC.path).read_bytes() == CRITIC.data
    run("remove", "critic", "--project", small, code=0)
    assert lock.read(small).options.features == ()
    assert not (small / CRITIC.path).exists()
    wrong = run("remove", "critic", str(small), code=2)
    assert f"hint: give the project by `--project {small}`" in wrong.err
    run("add", "qlora", "--project", small, code=0)
    run("remove", "qlora", "--project", small, code=0)
    run("remove", "export_model", "lora", "--project", small, code=0)
    assert lock.read(small).options.features == ()


WRONG = (
    (["--to", "9"], "verl 9 is not supported", "supported: 0.5.0, 0.6.1"),
    (["--with", "critc"], "has no feature 'critc'", "did you mean `critic`"),
    (["--with", "critic", "--without", "critic"], "contradict", "drop one of the two"),
    (["--continue", "--abort"], "--continue takes no other option", "run `vextract upgrade --continue`"),
    (["--abort", "--to", "0.5.0"], "--abort takes no other option", "run `vextract upgrade --abort`"),
    (["--continue"], "nothing to continue: no upgrade is going on", "`vextract status`"),
    (["--abort"], "nothing to abort: no upgrade is going on", "`vextract status`"),
    (["--algorithm", "ppo", "--without", "critic"], "--without critic: algorithm ppo needs it", "choose another"),
    (["--without", "crtic"], "has no feature 'crtic'", "did you mean"),
)


def test_usage_errors(run: Run, small: Path) -> None:
    before = picture(small)
    for arguments, message, hint in WRONG:
        result = run("upgrade", small, *arguments, code=2)
        assert message in result.err
        assert f"hint: {hint}" in result.err
    assert picture(small) == before


def test_two_at_once(run: Run, small: Path) -> None:
    before = picture(small)
    with disk.lock_exclusively(small) as free:
        assert free
        for flags in ([], ["--dry-run"], ["--continue"], ["--abort"]):
            result = run("upgrade", small, *flags, code=1)
            assert result.err == (
                "error: another vextract is upgrading this project\nhint: wait until it has ended, then try again\n"
            )
    assert picture(small) == before


def commit(project: Path) -> None:
    """All of it."""
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "all of it")


def test_uncommitted_changes(run: Run, small: Path) -> None:
    git(small, "init", "-q")
    # Nothing is committed, but nothing is edited either.
    assert "not committed" not in run("upgrade", small, "--dry-run").err
    commit(small)
    (small / "toy/custom/reward.py").write_bytes(text("mine"))
    (small / "notes.txt").write_bytes(text("mine"))
    assert "not committed" not in run("upgrade", small, "--dry-run").err
    (small / "main.py").write_bytes(text("main", *TEN, "mine"))
    assert "main.py is not committed: commit first" in run("upgrade", small, "--dry-run").err
    before = picture(small)
    result = run("upgrade", small, code=2)
    assert result.err == (
        "error: main.py: changed and not committed\n"
        "hint: commit first, so that you can tell the upgrade's changes from yours; or pass --allow-dirty\n"
    )
    assert picture(small) == before
    run("upgrade", small, "--allow-dirty", code=0)


def test_what_git_does_not_know_and_links_that_it_knows(run: Run, small: Path) -> None:
    git(small.parent, "init", "-q")
    plain = (small / "main.py").read_bytes()
    (small / "main.py").write_bytes(text("main", *TEN, "mine"))
    assert "main.py: changed and not committed" in run("upgrade", small).err
    (small / "main.py").write_bytes(plain)
    shared = small.parent / "shared.py"
    shared.write_bytes(text("# shared"))
    (small / "toy/protocol.py").unlink()
    (small / "toy/protocol.py").symlink_to(shared)
    commit(small.parent)
    assert run("upgrade", small, "--dry-run").err == run("upgrade", small, "--dry-run", "--allow-dirty").err
    (small / "toy/protocol.py").unlink()
    (small / "toy/protocol.py").symlink_to(small / "main.py")
    assert "toy/protocol.py: changed and not committed" in run("upgrade", small).err


def test_git_that_does_not_answer(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the repository may be another user's: then nobody knows what is committed."""
    commit(small)
    (small / "main.py").write_bytes(text("main", *TEN, "mine"))
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    before = picture(small)
    refused = run("upgrade", small, code=2)
    assert refused.err.startswith(
        "error: Git does not say whether all changes are committed: detected dubious ownership in repository"
    )
    assert "hint: `git status` in the project says what to do about it; or pass --allow-dirty\n" in refused.err
    assert "Git does not say whether all is committed" in run("upgrade", small, "--dry-run").err
    assert picture(small) == before
    run("upgrade", small, "--allow-dirty", code=0)


def test_what_was_put_aside_by_an_earlier_abort_stays(run: Run, edited: Path) -> None:
    for number, name in ((1, "main.py"), (2, "main.py.2"), (3, "main.py.3"), (3, "main.py.3")):
        run("upgrade", edited)
        (edited / "main.py").write_bytes(text("attempt", number))
        assert f".vextract/aborted/{name}" in run("upgrade", edited, "--abort").err
    saved = sorted((edited / ".vextract/aborted").iterdir())
    assert [path.read_bytes() for path in saved] == [text("attempt", number) for number in (1, 2, 3)]


CONFIG, OPTIM = "config/ppo_trainer.yaml", "actor_rollout_ref.actor.optim"


def _config(rate: int, schedule: str, *, steps: bool) -> Tree:
    lines = [f"lr: {rate}", f"{schedule}: constant", *(["gone: 1"] if steps else [])]
    text = "actor_rollout_ref:\n  actor:\n    optim:\n" + "".join(f"      {line}\n" for line in lines)
    return Tree.of([*OLD_TREE, template(CONFIG, text.encode())])


@pytest.fixture
def with_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a preset of the owner's, in which a key has another name from 0.6.0 on."""
    old, new = _config(1, "warmup_style", steps=True), _config(2, "lr_scheduler_type", steps=False)
    monkeypatch.setitem(TREES, "0.5.0", old)
    monkeypatch.setitem(TREES, "0.6.1", new)
    project = create(tmp_path / "toy", old, OLD)
    preset = project / "config/preset/mine.yaml"
    preset.parent.mkdir()
    preset.write_text("# @package _global_\nactor_rollout_ref:\n  actor:\n    optim:\n      warmup_style: cosine\n")
    (project / CONFIG).write_text(
        (project / CONFIG).read_text().replace("lr: 1", "lr: 3").replace("gone: 1", "gone: 2")
    )
    return project


SETTINGS = f"""
your settings
  moved     {OPTIM}.warmup_style: cosine  (now {OPTIM}.lr_scheduler_type)
  lost      {OPTIM}.gone: 2  (verl 0.6.1 has no such setting)
  to change config/flat.yaml:2  ({OPTIM}.gone no longer exists)
"""


def test_what_becomes_of_settings_is_told(run: Run, with_config: Path) -> None:
    (with_config / "config/flat.yaml").write_text("defaults: [mine]\nactor_rollout_ref: {actor: {optim: {gone: 3}}}\n")
    shown = run("upgrade", with_config, "--dry-run", code=0).out
    assert "(nothing was written)\n" in shown
    assert shown.endswith(SETTINGS)
    settings = json.loads(run("upgrade", with_config, "--json", code=1).out)["settings"]
    assert [item["new_key"] for item in settings["moved"]] == [f"{OPTIM}.lr_scheduler_type"]
    assert [(item["key"], item["value"]) for item in settings["lost"]] == [(f"{OPTIM}.gone", "2")]
    assert [(item["file"], item["line"]) for item in settings["to_change"]] == [("config/flat.yaml", 2)]


def test_a_file_of_the_owners_that_is_rewritten_beside_a_conflict(run: Run, with_config: Path) -> None:
    before = picture(with_config)
    run("upgrade", with_config, code=1)
    assert "lr_scheduler_type: cosine" in (with_config / "config/preset/mine.yaml").read_text()
    run("status", with_config, code=0)
    run("upgrade", with_config, "--abort", code=0)
    assert picture(with_config) == before
    run("upgrade", with_config)
    # What is left is the marker, and not the former version that is parked for the setting that has no place.
    assert run("upgrade", with_config, "--continue").err.startswith(f"error: {CONFIG}:4: a marker is left\n")
    resolved = with_config / CONFIG
    resolved.write_text("actor_rollout_ref:\n  actor:\n    optim:\n      lr: 3\n      lr_scheduler_type: constant\n")
    run("upgrade", with_config, "--continue", code=0)
    assert (with_config / "orphaned" / CONFIG).is_file()


def test_a_journal_that_no_command_could_read_is_not_begun_with(small: Path) -> None:
    ends = [journal.Change(path, *[(small / path).read_bytes()] * 2, None) for path in ENDS]
    changes = (journal.Change("toy/of_nobody.py", b"old", b"new", None), *ends)
    before = picture(small)
    with pytest.raises(ValueError, match="is no file of the project"):
        journal.begin(small, journal.Journal("x", changes, (), (), ()))
    assert picture(small) == before


def test_the_journal_is_none_of_gits_business(run: Run, edited: Path) -> None:
    git(edited, "init", "-q")
    run("upgrade", edited, "--allow-dirty")
    listed = git(edited, "status", "--porcelain", "-uall")
    assert ".vextract/base.zip" in listed
    assert ".vextract/upgrade" not in listed
    # Every other command refuses where it is half way.
    found = journal.read(edited)
    assert found is not None
    (edited / lock.NAME).write_bytes(found.lock.old or b"")
    for words in (["sync"], ["diff"], ["upgrade"], ["upgrade", "--dry-run"]):
        assert run(words[0], edited, *words[1:], code=1).err == (
            "error: an upgrade was interrupted half way: verl 0.5.0 -> verl 0.6.1\n"
            "hint: finish it with `vextract upgrade --continue`, or go back with `vextract upgrade --abort`\n"
        )
    shown = run("status", edited)
    assert "upgrade interrupted half way: verl 0.5.0 -> verl 0.6.1" in shown.out
    assert "`vextract upgrade --continue` finishes the upgrade, `vextract upgrade --abort` undoes it" in shown.err


DIFF = """\
--- a/main.py
+++ b/main.py
@@ -1,4 +1,4 @@
-main
+mine
 1
 2
 3
"""


def test_diff(run: Run, edited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("diff", edited / "main.py").out == DIFF
    monkeypatch.chdir(edited / "toy")
    assert run("diff", "../main.py").out == DIFF
    assert run("diff", "protocol.py").out.splitlines()[3] == "+# mine"
    assert run("diff", ".").out.count("+++ ") == 2
    assert run("diff").out.count("+++ ") == 4
    assert "+++ /dev/null" in run("diff", edited / "Makefile").out


def test_diff_is_a_patch(run: Run, edited: Path, tmp_path: Path) -> None:
    (edited / "toy/protocol.py").write_bytes("1\r\n2  \né".encode())
    (tmp_path / "patch").write_text(run("diff", edited).out, newline="")
    plain = create(tmp_path / "plain", OLD_TREE, Options("toy", "0.5.0"))
    git(plain, "init", "-q")
    git(plain, "apply", str(tmp_path / "patch"))
    changed = {path: data for path, data in files_of(plain).items() if not path.startswith(".git/")}
    assert changed == files_of(edited)


def test_diff_of_what_is_not_managed(run: Run, small: Path) -> None:
    result = run("diff", small, code=0)
    assert (result.out, result.err) == ("", "no edits\n")
    assert "yours: nothing was emitted" in run("diff", small / "toy/custom/reward.py", code=2).err
    assert "not a file that vextract" in run("diff", small / "x.txt", code=2).err


def test_diff_on_a_terminal(run: Run, edited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = run("diff", edited / "main.py").out
    assert "\x1b[32m+mine" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in run("diff", edited / "main.py").out
