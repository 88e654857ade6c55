"""Projects that a former vextract made: what they have that today's have not goes along, with their owner's edits.

Some of that code comes from this repository's history. In a shallow clone those tests are skipped.
"""

import ast
import io
import os
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from extractor.cli.app import run as command
from extractor.project import base, lock
from extractor.usecases import emitted_files, upgrade
from extractor.usecases.upgrade.choices import UpgradeRequest
from extractor.usecases.upgrade.former_features import FormerFeatures, find_former_features
from extractor.values import releases
from extractor.values.tree import File, FileKind, Tree
from tests.cli.conftest import Result
from tests.lifecycle.releases import Configuration, generated, options_of
from tests.lifecycle.worlds import create, files_of, replace_once
from tests.project.support import make
from tests.releases import NEWEST, source_of
from tests.rewrite.support import with_former_header

pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]
OLD, NEW = NEWEST


# Headers of before schema 2 of the lock give way to today's, which change with the code only.


def test_files_whose_code_is_equal_are_equal_in_two_releases() -> None:
    before = {file.path: file for file in generated(Configuration(OLD)).tree}
    equal = 0
    for file in generated(Configuration(NEW)).tree:
        if file.path not in before or file.kind is FileKind.HOOK or file.path == "LICENSE.verl":
            continue
        (first, _, code), (former, _, its) = (side.data.decode().partition("\n") for side in (file, before[file.path]))
        assert code != its or first == former, file.path
        assert OLD not in first, file.path
        assert NEW not in first, file.path
        equal += file.kind is FileKind.VENDORED and code == its
    assert equal >= 25


def _with_former_header(file: File) -> File:
    if not file.upstream_path or not file.upstream_sha256:
        return file
    body = file.data.decode().partition("\n")[2]
    text = with_former_header(body, OLD, file.upstream_path, file.changes, file.upstream_sha256)
    return replace(file, data=text.encode(), changes=())


def test_an_untouched_project_becomes_a_fresh_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one whose changes stand in headers, and none in the lock."""
    options, source = options_of(Configuration(OLD)), source_of(OLD)
    former = Tree.of([_with_former_header(file) for file in generated(Configuration(OLD)).tree])
    project = create(tmp_path / "toy", former, options)
    locked = lock.Lock.of(former, options, vextract="0.1.0", source_kind=source.kind, source_sha256=source.sha256)
    text = lock.dump(locked).decode().replace("schema = 2", "schema = 1").rpartition("\n[integrity]\n")[0]
    digest = lock._compute_body_digest(text)
    (project / lock.NAME).write_text(f'{text}\n[integrity]\nsha256 = "{digest}"\n', encoding="utf-8")

    for name in ("status", "diff", "sync"):
        assert command([name, str(project)]) == 0
        assert "edited" not in capsys.readouterr().out, name
    assert command(["explain", "agg_loss", str(project)]) == 0
    assert f"\n  release  verl {OLD}, sha256 of that file " in capsys.readouterr().out
    assert command(["upgrade", str(project), "--to", NEW, "--offline"]) == 0
    assert "no conflicts" in capsys.readouterr().out
    tree = generated(Configuration(NEW)).tree
    emitted = {file.path: file.data for file in tree if file.kind is not FileKind.HOOK}
    found = files_of(project)
    assert base.read(project, lock.read(project)) == emitted == {path: found[path] for path in emitted}
    fresh = lock.Lock.of(tree, options_of(Configuration(NEW)), vextract="", source_kind="", source_sha256="")
    assert lock.read(project).files == fresh.files


# Methods that a slice leaves out, and that a project has whose classes are whole.

CONFIG, TYPES = "toy/vendored/workers/config/actor.py", "toy/vendored/utils/torch_dtypes.py"
EDITED, USED = (
    "verl.workers.config.actor:ActorConfig._check_mutually_exclusive",
    "verl.utils.torch_dtypes:PrecisionType.to_str",
)


def _upgraded(root: Path) -> upgrade.Upgrade:
    found = upgrade.prepare(root, UpgradeRequest(release="0.6.1"), offline=True)
    upgrade.write(root, found)
    return found


def test_methods_that_the_owner_edits_or_uses_stay(tmp_path: Path) -> None:
    root = tmp_path / "toy"
    make(Configuration("0.6.1"), root, replace(releases.load("0.6.1"), whole=("verl*:*",)))
    name = "    def _check_mutually_exclusive("
    replace_once(root / CONFIG, name, f"    # mine\n{name}")
    found = _upgraded(root)
    assert found.new.options.methods == (EDITED,)
    assert f"    # mine\n{name}" in (root / CONFIG).read_text(encoding="utf-8")
    assert "def to_str" not in (root / TYPES).read_text(encoding="utf-8")
    with (root / "toy/custom/algorithms.py").open("a") as hook:
        hook.write("\n\ndef name(kind):\n    return kind.to_str(1)\n")
    assert _upgraded(root).new.options.methods == (USED, EDITED)
    text = (root / TYPES).read_text(encoding="utf-8")
    assert "def to_str" in text
    assert "def supported_types" not in text
    again = emitted_files.regenerate(lock.read(root), offline=True)
    assert emitted_files.list_differences(lock.read(root), base.collect_from_tree(again.generated.tree)) == []
    assert not _upgraded(root).changes_anything


# Parts of every project that are features now: those that are used stay.

PARTS = (
    "given_objects",
    "hub",
    "parts",
    "plots",
    "reward_forms",
    "sandbox",
    "short_names",
    "sweep",
    "verl_checkpoints",
)


@pytest.mark.slow
def test_features_that_are_used_stay_and_others_go(run: Callable[..., Result], tmp_path: Path) -> None:
    root = make(Configuration(NEW, features=PARTS), tmp_path / "project").root
    found = lock.read(root)
    (root / lock.NAME).write_bytes(lock.dump(replace(found, options=replace(found.options, features=()))))
    hook = root / "toy/custom/reward_manager.py"
    hook.write_text(hook.read_text() + "\n\ndef judge(text):\n    from ..rewards.verified_code import score_code\n")
    (root / "runs.sh").write_text("python main.py --multirun algorithm.adv_estimator=grpo,rloo\n")
    (root / "script.py").write_text("from toy import LocalRollouts, load_config\n")
    plots = root / "toy/tracking/plots.py"
    plots.write_text(plots.read_text() + "\nMINE = 1\n")

    result = run("upgrade", root, code=0)
    assert lock.read(root).options.features == ("given_objects", "parts", "plots", "sandbox", "sweep")
    assert "sandbox (toy/custom/reward_manager.py), sweep (runs.sh)" in result.out
    gone = "export_model, hub, reward_forms, short_names, verl_checkpoints"
    assert f"left out as unused (`vextract add export_model` brings one back): {gone}" in result.out
    assert plots.read_text().endswith("\nMINE = 1\n")
    assert (root / "toy/rewards/sandboxing/judge.py").exists()
    assert not (root / "toy/run/verl_shards.py").exists()
    assert run("upgrade", root).out.startswith("up to date")


# What every project had in a file, and what of it an owner uses.
STOOD_IN = {
    "toy/training/rollouts.py": b"reward_keys.IN_BACKGROUND\n",
    "toy/training/trainer.py": b"self.config.local.log_train_generations\n",
    "toy/training/failures.py": b"class DivergenceCheck",
}
USES = {
    "overlap": "local: {reward: {in_background: true}}\n",
    "reward_logs": "local: {log_train_generations: 2}\n",
    "watch": "except: DivergenceError as error\n",
}


@pytest.mark.slow
def test_settings_and_uses_bring_their_feature(tmp_path: Path) -> None:
    root = make(Configuration(NEW), tmp_path / "project").root
    found = lock.read(root)
    emitted = {file.path: (root / file.path).read_bytes() for file in found.files}
    for path, code in STOOD_IN.items():
        emitted[path] += code
        (root / path).write_bytes(emitted[path])
    for name, text in USES.items():
        path = "mine.py" if name == "watch" else "config/mine.yaml"
        (root / path).write_text(text)
        used = find_former_features(root, found, emitted, found.options, releases.load(NEW))
        assert used == FormerFeatures({name: path}, tuple(sorted(USES.keys() - {name})))
        (root / path).unlink()


# The last commits before the layout changed, and before features were taken out of the default project.
BEFORE, LARGE = "18a68d028af503e23a82722b43aebb7fd336bb9f", "6c0d83f2ce72c2eaf2c8c496ac1990819cbbdc93"
# What a conflict's lines were, and what they are now.
CONFLICT = re.compile(r"^\|{7} .*?\n(.*?)^={7}\n(.*?)^>{7} ", re.DOTALL | re.MULTILINE)


def _made_by(commit: str, folder: Path) -> Path:
    """A project as the vextract of a commit makes it."""
    archived = ["git", "-C", str(Path(__file__).parents[2]), "archive", commit]
    done = subprocess.run(archived, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this checkout is shallow and has no {commit[:7]}: git fetch --unshallow")
    code, target = folder / "code", folder / "made/toy"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(code, filter="data")
    target.parent.mkdir()
    words = [sys.executable, "-m", "extractor", "new", target, "--verl", NEW, "--offline"]
    subprocess.run(words, cwd=code, env={**os.environ, "PYTHONPATH": str(code)}, check=True, capture_output=True)
    return target


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("commit", [BEFORE, LARGE])
def test_edits_all_over_a_large_project_are_all_there_after_an_upgrade(commit: str, tmp_path: Path) -> None:
    project = _made_by(commit, tmp_path)
    own = [path for path in sorted((project / "toy").rglob("*.py")) if not {"vendored", "custom"} & set(path.parts)]
    draw, marks = random.Random(1), list[str]()
    for path in own:
        text = path.read_text(encoding="utf-8")
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        functions = [node for node in functions if node.body[-1].lineno > node.lineno]  # a stub has no room for an edit
        if functions:
            last = draw.choice(functions).body[-1]
            lines = text.split("\n")
            lines.insert(last.lineno - 1, f"{' ' * last.col_offset}mine = {len(marks)}  # MINE_{len(marks)}")
            path.write_text("\n".join(lines), encoding="utf-8")
            marks.append(f"# MINE_{len(marks)}\n")
    assert len(marks) > 150
    assert command(["upgrade", str(project), "--to", NEW, "--offline"]) in (0, 1)
    texts = {path: path.read_text(encoding="utf-8") for path in project.rglob("*.py")}
    found = {mark: next((path for path, text in texts.items() if mark in text), None) for mark in marks}
    assert None not in found.values()
    parked = [path for path in found.values() if path is not None and "orphaned" in path.parts]
    conflicts = {path: CONFLICT.findall(text) for path, text in texts.items() if "<<<<<<<" in text}
    assert len(parked) < len(marks) / 4, parked  # of code that is nowhere any more
    assert len(conflicts) < len(marks) / 3, [*conflicts]  # nearly every function has changed since
    assert all(found and all(base != theirs for base, theirs in found) for found in conflicts.values())
