"""What of verl a project's owner asks for in `vextract.toml`, or by importing it, comes and stays."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from extractor.project import base, lock
from extractor.usecases import emitted_files, upgrade
from extractor.usecases.upgrade.choices import UpgradeRequest
from extractor.values import releases
from extractor.values.tree import FileKind
from tests.cli.conftest import Result, project
from tests.cli.conftest import _pristine as _pristine
from tests.lifecycle.releases import Configuration, generated
from tests.lifecycle.worlds import replace_once
from tests.project.support import make
from tests.releases import NEWEST

__all__ = ["project"]

pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]
Run = Callable[..., Result]
LATE = "import toy.workers.shared_forward"
ACTOR = "verl.workers.actor.dp_actor:DataParallelPPOActor"
ADDED = ("verl.utils.seqlen_balancing:karmarkar_karp", "verl/utils/reward_score/geo3k.py")
BALANCING = "toy/vendored/utils/seqlen_balancing.py"


def test_what_is_added_or_imported_comes_along(run: Run, project: Path) -> None:
    listed, brought = project / "vextract.toml", project / "toy/vendored/utils/reward_score/geo3k.py"
    run("add", ACTOR, *ADDED, "--project", project, code=0)
    assert "def karmarkar_karp" in (project / BALANCING).read_text()  # although feature dynamic_bsz has it
    text = listed.read_text()
    assert "is a root (vextract.toml)" in run("explain", "karmarkar_karp", project, code=0).out
    run("add", ADDED[0], "--project", project, code=0)
    assert listed.read_text() == text  # it is there

    ways = {
        "toy/custom/mine.py": "import toy.vendored.workers.dp_actor\n",
        "toy/custom/late.py": "def f():\n    from ..vendored.workers import hf_rollout\n    return hf_rollout\n",
        "compare.py": 'import importlib\nlate = importlib.import_module("toy.vendored.utils.torch_dtypes")\n',
        "lab/look.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": ["%pip list\n", LATE]}]}),
        "toy/custom/rows.py": "from ..vendored.utils.seqlen_balancing import karmarkar_karp\n",
    }
    for path, text in ways.items():
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text(text)
    refused = run("upgrade", project, "--to", "0.9.1", "--allow-dirty", code=2).err
    assert "toy/custom/mine.py imports it" in refused
    assert f"vextract.toml: {ACTOR} is not in verl 0.9.1" in refused
    assert f"hint: `vextract remove {ACTOR}`" in refused
    assert " edited" not in run("status", project).out

    run("remove", ACTOR, ADDED[0], "--project", project, code=0)
    assert "def karmarkar_karp" in (project / BALANCING).read_text()
    assert "the project's own code" in run("explain", "karmarkar_karp", project, code=0).out
    actor = project / "toy/vendored/workers/dp_actor.py"
    before = actor.read_bytes()
    said = run("upgrade", project, "--to", "0.9.1", "--allow-dirty", "-v", code=0).out
    assert "toy/custom/mine.py imports it: yours now" in said
    assert "lab/look.ipynb imports it: yours now" in said
    assert actor.read_bytes() == before
    assert actor.with_name("base_actor.py").exists()  # which that one imports
    for path in ("vendored/utils/torch_dtypes.py", "vendored/workers/hf_rollout.py", "workers/shared_forward.py"):
        assert (project / "toy" / path).exists()
    assert not (project / "toy/vendored/workers/reward_manager/naive.py").exists()
    assert re.search(r"to change toy/vendored/workers/dp_actor.py:\d+ .*no longer in toy.shims.not_vendored", said)
    # As what is the owner's now does.
    assert "verl.utils.torch_dtypes:PrecisionType.to_dtype" in lock.read(project).options.methods
    assert "def karmarkar_karp" in (project / BALANCING).read_text()
    assert "up to date" in run("upgrade", project, "--to", "0.9.1", "--allow-dirty", code=0).out

    brought.unlink()
    run("sync", project, "--removed", code=0)
    assert brought.exists()
    run("remove", ADDED[1], "--project", project, code=0)
    assert not brought.exists()


def test_a_manifest_changed_by_hand_is_said_and_followed(run: Run, project: Path) -> None:
    (project / "vextract.toml").write_text('roots = ["verl.utils.seqlen_balancing"]\n')
    assert "vextract upgrade --to 0.6.1" in run("status", project, code=0).out
    for there in (True, False):
        run("upgrade", project, "--to", "0.6.1", code=0)
        assert (project / BALANCING).exists() is there
        (project / "vextract.toml").unlink(missing_ok=True)


def test_a_project_begins_with_a_manifest(run: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "mine.toml"
    manifest.write_text("""
roots = ["verl.utils.reward_score.gsm8k:*"]  # the scorer
cuts = ["verl.trainer.ppo.core_algos:compute_rloo_outcome_advantage"]

[layout]
"utils/reward_score/" = "vendored/scorers/"

[[replacements]]
symbol = "verl.utils.reward_score.gsm8k:extract_solution"
with = "custom.solutions:extract_solution"
why = "answers are in boxes here"

[[fixes]]
id = "gsm8k-plain-zero"
why = "a format score is not wanted"
module = "verl.utils.reward_score.gsm8k"
edits = [{op = "replace", within = "compute_score", match = "format_score", with = "0.0"}]
""")
    run("new", tmp_path / "toy", "--verl", "0.9.1", "--manifest", manifest, code=0)
    project = tmp_path / "toy"
    assert (project / "vextract.toml").read_text() == manifest.read_text()
    score = (project / "toy/vendored/scorers/gsm8k.py").read_text()
    assert "from toy.custom.solutions import extract_solution" in score
    assert "def extract_solution" not in score
    assert "return 0.0" in score
    assert "gsm8k-plain-zero" in run("explain", "verl.utils.reward_score.gsm8k", project, code=0).out
    assert "def compute_rloo_outcome_advantage(" not in (project / "toy/vendored/algorithms/core_algos.py").read_text()
    shutil.rmtree(project / "toy/vendored/scorers")
    run("sync", project, "--removed", code=0)
    assert (project / "toy/vendored/scorers/gsm8k.py").read_text() == score


def test_mistakes_are_named(run: Run, project: Path) -> None:
    written = project / "vextract.toml"
    for text, said in {
        "roots = [": "not valid TOML",
        'rots = ["verl.x:f"]': "did you mean `roots`?",
        'roots = ["verl.utils.nowhere"]': "verl.utils.nowhere:* is not in verl 0.6.1\nhint: correct the name\n",
        'roots = ["verl.workers.rollout.sglang_rollout"]': "defines nothing itself\nhint: name what you need: ",
        'roots = ["verl.utils.fs:copy_to_locla"]': "hint: it has verl.utils.fs:copy_to_local: write that\n",
        '[layout]\n"utils/" = "../x/"': "key `layout.utils/`",
        '[[fixes]]\nid = "a"': "key `fixes[0].why`: is missing",
    }.items():
        written.write_text(text + "\n")
        refused = run("upgrade", project, "--to", "0.6.1")
        assert (refused.code, said in refused.err) == (2, True), (text, refused.err)
        assert "hint: " in refused.err
    written.unlink()
    refused = run("add", "verl.trainer.ppo.ray_trainer:RayPPOTrainer", "--project", project, code=1)
    assert refused.err.startswith("  vextract.toml asks for verl.trainer.ppo.ray_trainer:RayPPOTrainer\nerror: verl/")
    assert " edited" not in run("status", project).out
    # What is not here is explained with what brings it.
    said = run("explain", "karmarkar_karp", project).err
    assert "hint: `vextract add verl.utils.seqlen_balancing:karmarkar_karp` brings it, " in said
    assert "so does `vextract add dynamic_bsz`" in said
    for named in ("verl.utils.reward_score.gsm8k:compute_score", "verl.utils.reward_score.gsm8k"):
        assert f"`vextract add {named}` brings it, " in run("explain", named, project).err
    assert "tells which of its modules to name" in run("explain", "verl.workers.rollout.sglang_rollout", project).err
    assert "tells why it cannot be had" in run("explain", "verl.trainer.main_ppo:run_ppo", project).err


# What a project of a former vextract has, and its owner uses, stays.

OLD, NEW = NEWEST


def test_files_whose_code_is_equal_are_equal_in_two_releases() -> None:
    """Headers change with the code only."""
    tree, equal = generated(Configuration(NEW)).tree, 0
    before = {file.path: file.data.decode().partition("\n") for file in generated(Configuration(OLD)).tree}
    for file in tree:
        if file.path in before and file.kind is FileKind.VENDORED and file.path != "LICENSE.verl":
            (first, _, code), (former, _, its) = file.data.decode().partition("\n"), before[file.path]
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
    assert emitted_files.list_differences(lock.read(root), base.collect_from_tree(again.tree)) == []
    assert not _upgraded(root).changes_anything


# Parts of every project that are features now: those that are used stay.

PARTS = (
    "given_objects", "hub", "parts", "plots", "reward_forms", "sandbox", "short_names", "sweep", "verl_checkpoints",
)  # fmt: skip


@pytest.mark.slow
def test_features_that_are_used_stay_and_others_go(run: Run, tmp_path: Path) -> None:
    root = make(Configuration(NEW, features=PARTS), tmp_path / "project").root
    found = lock.read(root)
    (root / lock.NAME).write_bytes(lock.dump(replace(found, options=replace(found.options, features=()))))
    hook = root / "toy/custom/reward_manager.py"
    hook.write_text(hook.read_text() + "\n\ndef judge(text):\n    from ..rewards.verified_code import score_code\n")
    (root / "runs.sh").write_text("python main.py --multirun algorithm.adv_estimator=grpo,rloo\n")
    (root / "script.py").write_text("from toy import LocalRolloutManager, load_config\n")
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
