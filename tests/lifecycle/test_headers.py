"""Headers of vendored files change with the code only, and those of before schema 2 of the lock give way to today's."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.project import base, lock
from extractor.values.tree import File, FileKind, Tree
from tests.lifecycle.releases import Choice, generated, options_of
from tests.lifecycle.worlds import create, files_of
from tests.releases import ALL, NEWEST, source_of
from tests.rewrite.support import with_former_header

pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]
OLD, NEW = NEWEST


@pytest.mark.parametrize(
    ("old", "new"),
    [pytest.param(*pair, marks=() if pair == NEWEST else pytest.mark.thorough) for pair in pairwise(ALL)],
)
def test_files_whose_code_is_equal_are_equal_in_two_releases(old: str, new: str) -> None:
    before = {file.path: file for file in generated(Choice(old)).tree}
    equal = 0
    for file in generated(Choice(new)).tree:
        was = before.get(file.path)
        if was is None or file.kind is FileKind.HOOK or file.path == "LICENSE.verl":
            continue
        first, _, code = file.data.partition(b"\n")
        former, _, its = was.data.partition(b"\n")
        if code == its:
            assert first == former, file.path
            equal += file.kind is FileKind.VENDORED
        assert old not in first.decode(), file.path
        assert new not in first.decode(), file.path
    assert equal >= (25 if (old, new) == ("0.9.0", "0.9.1") else 1)


@pytest.fixture(scope="module")
def former(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as it was made before: changes stand in headers, and none in the lock."""
    options, source = options_of(Choice(OLD)), source_of(OLD)
    tree = Tree.of([_formerly(file) for file in generated(Choice(OLD)).tree])
    project = create(tmp_path_factory.mktemp("former") / "toy", tree, options)
    locked = lock.Lock.of(tree, options, vextract="0.1.0", source_kind=source.kind, source_sha256=source.sha256)
    text = lock.dump(locked).decode().replace("schema = 2", "schema = 1").rpartition("\n[integrity]\n")[0]
    (project / lock.NAME).write_text(
        f'{text}\n[integrity]\nsha256 = "{lock._compute_body_digest(text)}"\n', encoding="utf-8"
    )
    return project


def _formerly(file: File) -> File:
    if not file.upstream_path or not file.upstream_sha256:
        return file
    body = file.data.decode().partition("\n")[2]
    text = with_former_header(body, OLD, file.upstream_path, file.changes, file.upstream_sha256)
    return replace(file, data=text.encode(), changes=())


def test_an_untouched_project_becomes_a_fresh_one(
    former: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Path(shutil.copytree(former, tmp_path / "toy"))
    for name in ("status", "diff", "sync"):
        assert command([name, str(project)]) == 0
        assert "edited" not in capsys.readouterr().out, name
    assert command(["explain", "agg_loss", str(project)]) == 0
    assert f"\n  release  verl {OLD}, sha256 of that file " in capsys.readouterr().out
    assert command(["upgrade", str(project), "--to", NEW, "--offline"]) == 0
    assert "no conflicts" in capsys.readouterr().out
    tree = generated(Choice(NEW)).tree
    assert {file.path: file.data for file in tree if file.kind is not FileKind.HOOK} == base.read(
        project, lock.read(project)
    )
    found = files_of(project)
    assert all(found[file.path] == file.data for file in tree if file.kind is not FileKind.HOOK)
    assert (
        lock.read(project).files
        == lock.Lock.of(tree, options_of(Choice(NEW)), vextract="", source_kind="", source_sha256="").files
    )


def test_edits_beside_a_former_header_come_along(
    former: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Path(shutil.copytree(former, tmp_path / "toy"))
    edits: dict[str, Callable[[str], str]] = {
        "protocol.py": lambda text: _below(text, "# MINE"),
        "algorithms/core_algos.py": lambda text: f"# MINE\n{text}",
        "algorithms/losses.py": lambda text: text.replace("\n", "\n# MINE\n", 1),
        "algorithms/metric_utils.py": lambda text: _below(text, "# MINE").partition("\n")[2],
        "algorithms/reward.py": lambda text: _below(text, "# MINE").replace("\n", "\r\n"),
        "data/rl_dataset.py": lambda text: f"\ufeff{_below(text, '# MINE')}",
        "utils/device.py": lambda text: _below(text, "#   MINE"),
        "utils/fsdp_utils.py": lambda text: _below(text, "# changed: MINE"),
        "utils/model.py": lambda text: f'"""MINE."""\n{text}',
        "workers/engine/fsdp/utils.py": lambda text: _below(text, "# MINE").replace("Copyright", "COPYRIGHT", 1),
        "workers/hf_rollout.py": lambda text: f"import os  # MINE\n{text}",
    }
    for name, edit in edits.items():
        path = project / f"toy/vendored/{name}"
        path.write_bytes(edit(path.read_text(encoding="utf-8")).encode())
    assert command(["upgrade", str(project), "--to", NEW, "--offline"]) == 0
    assert f"no conflicts, {len(edits)} merged, " in capsys.readouterr().out
    emitted = {file.path: file.data.decode() for file in generated(Choice(NEW)).tree}
    for name in edits:
        text = (project / f"toy/vendored/{name}").read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        rest = re.sub(r".*MINE.*\n", "", text.replace("COPYRIGHT", "Copyright"))
        assert text.count("MINE") == 1, name
        assert rest == emitted[f"toy/vendored/{name}"], name
    capsys.readouterr()
    assert command(["status", str(project), "--json"]) == 0
    states = [item["state"] for item in json.loads(capsys.readouterr().out)["files"]]
    assert states.count("edited") == len(edits)


def _below(text: str, line: str) -> str:
    """Put a line between the header and upstream's text."""
    head = re.match(r"(?:# vextract:.*\n|# upstream sha256.*\n|# changed: .*\n|#   .*\n)*", text)
    assert head is not None
    return f"{text[: head.end()]}{line}\n{text[head.end() :]}"
