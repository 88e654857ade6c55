"""What of verl a project's owner asks for in `vextract.toml`, or by importing it, comes and stays."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Result, project
from tests.cli.conftest import _pristine as _pristine

__all__ = ["project"]

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
    assert "your code uses or changes them: PrecisionType.to_dtype" in said  # as what is the owner's now does
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


@pytest.mark.usefixtures("verl")
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
    assert "tells why it cannot be had" in run("explain", "verl.trainer.main_ppo:run_ppo", project).err
