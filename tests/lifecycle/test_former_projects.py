"""Projects that a former vextract made: what they have that today's have not goes along, with their owner's edits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from extractor.project import base, lock
from extractor.usecases import emitted_files, upgrade
from extractor.usecases.upgrade.choices import UpgradeRequest
from extractor.values import releases
from extractor.values.tree import FileKind
from tests.cli.conftest import Result
from tests.lifecycle.releases import Configuration, generated
from tests.lifecycle.worlds import replace_once
from tests.project.support import make
from tests.releases import NEWEST

pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]
OLD, NEW = NEWEST


def test_files_whose_code_is_equal_are_equal_in_two_releases() -> None:
    """Headers change with the code only."""
    before = {file.path: file for file in generated(Configuration(OLD)).tree}
    equal = 0
    for file in generated(Configuration(NEW)).tree:
        if file.path in before and file.kind is FileKind.VENDORED and file.path != "LICENSE.verl":
            (first, _, code), (former, _, its) = (
                side.data.decode().partition("\n") for side in (file, before[file.path])
            )
            assert code != its or first == former, file.path
            assert not {OLD, NEW} & {*first.split()}, file.path
            equal += code == its
    assert equal >= 25


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
    "given_objects", "hub", "parts", "plots", "reward_forms", "sandbox", "short_names", "sweep", "verl_checkpoints",
)  # fmt: skip


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
