"""Thousands of random edits, over every step between releases and options: none is lost."""

import random
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from extractor.pipeline.plan import Plan, Verdict
from extractor.project import journal
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.moved_files import find_moved_files as find
from extractor.values import releases
from extractor.values.config_files import is_config
from extractor.values.configtree.settings import list_every_setting
from extractor.values.configtree.yaml_text import Document, Value, put
from extractor.values.renamed_config_keys import KeyRenames
from extractor.values.tree import FileKind, Tree
from tests.lifecycle.releases import BREAKS, EVERY_STEP, LONGEST, NEW, VLLM, Configuration, generated, options_of
from tests.lifecycle.worlds import create, expected, files_of, lock_of, own, picture, ready
from tests.releases import EVERYTHING

ROUNDS = 6 if EVERYTHING else 3
FILES = 24
HEADER = b"# vextract:"  # says where a file comes from, which is no edit
KINDS = (
    "line", "insertion", "deletion", "renamed function", "new function", "unicode", "trailing whitespace", "CRLF line",
)  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """One edit; its token stands in no other place, and is the line that is gone of a deletion."""

    path: str
    kind: str
    token: bytes


def edit(path: str, data: bytes, chance: random.Random, known: set[bytes]) -> tuple[bytes, list[Edit]]:
    """Edit a file one to six times, as people do; lines that are `known` cannot tell a deletion."""
    lines, edits = data.split(b"\n"), list[Edit]()
    for number in range(chance.randint(1, 6)):
        token = f"EDIT_{chance.getrandbits(48):012x}_{number}".encode()
        at = chance.randrange(len(lines))
        while any(made.token in lines[at] for made in edits) or lines[at].startswith(HEADER):
            at = chance.randrange(len(lines))
        edits.append(Edit(path, *_edit_once(chance.choice(KINDS), token, lines, at, chance, known)))
    changed = b"\n".join(lines)
    if chance.random() < 0.1 and b"\r" not in changed:
        changed = changed.replace(b"\n", b"\r\n")
        edits.append(Edit(path, "CRLF file", b"\r\n"))
    # A later edit may have hit the place of an earlier one.
    return changed, [item for item in edits if item.kind == "deletion" or item.token in changed]


def _edit_once(
    kind: str, token: bytes, lines: list[bytes], at: int, chance: random.Random, known: set[bytes]
) -> tuple[str, bytes]:
    line = lines[at]
    functions = [n for n, line in enumerate(lines) if re.match(rb"\s*def \w+\(", line) and b"EDIT_" not in line]
    if kind == "deletion":
        if len(line.strip()) > 12 and lines.count(line) == 1 and line not in known and b"EDIT_" not in line:
            del lines[at]
            return kind, line
        kind = "line"
    if kind == "renamed function" and functions:
        at = chance.choice(functions)
        lines[at] = re.sub(rb"def (\w+)\(", rb"def \1_" + token + rb"(", lines[at], count=1)
    elif kind == "new function":
        lines[at:at] = [b"", b"", b"def " + token + b"():", b"    return 1", b"", b""]
    elif kind in ("insertion", "renamed function", "unicode"):
        token += " – été 漢字 🙂".encode() if kind == "unicode" else b""
        lines.insert(at, b"# " + token)
    else:
        token += {"trailing whitespace": b" \t  ", "CRLF line": b"\r"}.get(kind, b"")
        lines[at] += b"  # " + token
    return kind, token


def successors(old: Configuration, new: Configuration) -> dict[str, Successor]:
    return find(lock_of(generated(old).tree, options_of(old)), releases.load(old.release), generated(new))


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
        data, made = edit(path, file.data, chance, twice)
        (project / path).write_bytes(data)
        edits += made
    arriving = sorted(set(coming) - {file.path for file in old})
    for path in chance.sample(arriving, min(2, len(arriving))):
        edits.append(Edit(path, "own file", f"OWN_{chance.getrandbits(48):012x}".encode()))
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_bytes(edits[-1].token)
    return edits


def fate(item: Edit, plan: Plan, before: dict[str, bytes], after: dict[str, bytes]) -> str:
    """Where an edit stands afterwards: "tree", "conflict", "orphan", or "lost"."""
    (action,) = [action for action in plan.actions if action.path == item.path]
    path, name = item.path, "tree"
    if action.verdict is Verdict.DELETE:
        path = action.note.removeprefix("your edits are in ")
    elif action.verdict is Verdict.ORPHAN:
        path, name = action.side_files[0][0], "orphan"
    elif action.verdict is Verdict.CONFLICT:
        name = "conflict"
    data = after.get(path, b"")
    found = item.token in data
    if item.kind == "deletion":
        # Gone as its owner wanted, or between the markers of a conflict, in the side that is not his.
        found = item.token not in re.split(rb"\r?\n", data) or (name == "conflict" and b"<<<<<<< yours" in data)
    return name if found and (name != "orphan" or data == before[item.path]) else "lost"


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
        for file in before_tree:
            assert file.kind is not FileKind.HOOK or after[file.path] == bytes_before[file.path]
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
    for path in (file.path for file in generated(old).tree if file.kind is FileKind.HOOK):
        assert after[path] == before[path]
        after[path] = fresh.get(path, after[path])
    assert after == fresh
    ready(project, generated(old).tree, options_of(old), successors(new, old)).run()
    assert picture(project) == before


@pytest.mark.usefixtures("verl")
def test_the_role_says_where_a_file_went() -> None:
    rollout = successors(NEW, VLLM)["toy/vendored/workers/hf_rollout.py"]
    assert rollout.paths == ("toy/vendored/workers/vllm_rollout_spmd.py",)
    actor = successors(*LONGEST)["toy/vendored/workers/dp_actor.py"]
    engine = "toy/vendored/workers/engine/fsdp/transformer_impl.py"
    assert actor.paths[:2] == (engine, "toy/vendored/algorithms/losses.py")
    assert "toy/vendored/workers/utils/padding.py" in actor.paths
    assert not rollout.same
    assert not actor.same


# Over the releases at which upstream took files, roles and config keys away.


def with_settings(project: Path, tree: Tree, seed: int) -> dict[str, str]:
    """Set random keys of a project's config; value -> file."""
    chance, tokens = random.Random(seed), dict[str, str]()
    for file in (file for file in tree if is_config(file.path) and "preset/" not in file.path):
        text = file.data.decode()
        entries = Document.of(text).entries.items()
        leaves = [path for path, entry in entries if not entry.section and path != ("defaults",)]
        for path in chance.sample(leaves, min(len(leaves), 8)):
            token = f"SET_{chance.getrandbits(48):012x}"
            tokens[token] = file.path
            text = put(text, path, Value(f" {token}\n")) or ""
        (project / file.path).write_text(text)
    return tokens


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), BREAKS, ids=lambda choice: str(choice))
def test_no_setting_is_lost(old: Configuration, new: Configuration, tmp_path: Path) -> None:
    before, after = generated(old).tree, generated(new).tree
    renamed = KeyRenames(old.release, new.release)
    for number in range(ROUNDS):
        project = create(tmp_path / f"toy{number}", before, options_of(old))
        tokens = with_settings(project, before, zlib.crc32(f"{old} {new} {number}".encode()))
        texts = {path: (project / path).read_text() for path in tokens.values()}
        was = {item.value: item.key for item in _settings(texts, before)}
        entry = ready(project, after, options_of(new), successors(old, new))
        entry.run()
        conflicts = entry.plan.paths(Verdict.CONFLICT)
        config = {file.path: project / file.path for file in after if is_config(file.path)}
        now: dict[str, set[str]] = {}
        merged = {path: file.read_text() for path, file in config.items() if path not in conflicts}
        for item in _settings(merged, after):
            now.setdefault(item.value, set()).add(item.key)
        for token, file in tokens.items():
            parked = project / "orphaned" / file
            if token in now:
                assert now[token] & {was[token], renamed(was[token])}, (token, was[token])
            elif not any(token in config[path].read_text() for path in conflicts if path in config):
                assert token in parked.read_text()
                assert token in (project / f"orphaned/{file}.note").read_text()


def _settings(texts: dict[str, str], tree: Tree) -> list:
    """All settings, of these files and, where they are not among them, of those that are emitted."""
    emitted = {file.path: file.data.decode() for file in tree if is_config(file.path)}
    return list_every_setting(
        {path.removeprefix("config/"): text for path, text in {**emitted, **texts}.items()}, "ppo_trainer.yaml"
    )
