"""The commands that only report: explain, versions, verify, graph."""

import json
import re
import sys
from pathlib import Path

from extractor.project import lock
from extractor.values import releases


def test_versions(run, verl) -> None:
    """Each line says what the manifest says."""
    text, known = " ".join(run("versions", code=0).out.split()), list(map(releases.load, releases.list_supported()))
    offered = [{feature.name for feature in manifest.features} for manifest in known]
    for manifest, names, older in zip(known, offered, [offered[0], *offered], strict=False):
        came = f"; new: {', '.join(sorted(names - older))} " if names - older else " "
        said = f"{manifest.release} engines {', '.join(manifest.engines)}; {len(manifest.algorithms)} presets"
        assert said + came in text
    assert f"in all of them: {', '.join(sorted(offered[0]))} default: " in text
    newest = run("versions", releases.find_default()).out
    assert newest.startswith(f"verl {releases.find_default()} (default)\n  engines     hf, sglang, vllm\n")
    assert "(on with ppo)" in newest
    assert run("versions", "gspo").out.startswith("gspo  a preset, for --algorithm\n  in verl 0.9.1, ")
    assert "hint: did you mean vllm?" in run("versions", "vlm", code=2).err
    # A feature says what it adds and needs.
    told = run("versions", "rollout_correction").out.splitlines()[1]
    pattern = r"  adds (\d+) lines of ours and ([\d,]+) of verl's in a project of [\d.]+; needs nothing else"
    added = re.match(pattern, told)
    assert added is not None, told
    assert 50 < int(added[1]) < 200 < int(added[2].replace(",", "")), told


def test_explain_a_symbol_and_a_file(run, project: Path) -> None:
    path = "toy/vendored/algorithms/core_algos.py"
    lines = run("explain", "agg_loss", project, code=0).out.splitlines()
    entry = lock.read(project).file(path)
    assert lines[2].startswith("  whose    verl's: ")
    assert [*lines[:2], *lines[3:6]] == [
        "verl.trainer.ppo.core_algos:agg_loss",
        f"  in       {path}",
        "  from     verl/trainer/ppo/core_algos.py",
        f"  release  verl 0.6.1, sha256 of that file {entry.upstream_sha256}",
        "  why      verl.trainer.ppo.core_algos:agg_loss is a root (role algorithms)",
    ]
    (report,) = json.loads(run("explain", path, project, "--json").out)
    assert report["upstream_path"] == "verl/trainer/ppo/core_algos.py"
    assert (report["release"], report["upstream_sha256"]) == ("0.6.1", entry.upstream_sha256)
    assert report["changes"] == [change for change in entry.changes if not change.startswith("fix ")]
    assert "agg_loss" in report["symbols"]
    assert report["chain"][0]["how"] == "root"
    # What its owner edited.
    text = (project / path).read_text()
    (project / path).write_text(
        text.replace("std(scores_tensor)", "std(scores_tensor) * 2").replace("loss_gspo(", "loss_gspo(here, ")
    )
    edited = f"\n  note     edited: `vextract diff {path}` shows how"
    for name, is_edited in (
        ("compute_grpo_outcome_advantage", True),
        ("compute_policy_loss_gspo", True),
        ("core_algos.py", True),
        ("agg_loss", False),
    ):
        assert (edited in run("explain", name, project).out) is is_edited, name


OURS, OWNERS, TEMPLATES = "ours, from a template", "yours: no command of vextract writes it", "base/__package__/"
# What is asked for: what it is, whose it is, and the beginning of its template's name.
EXPLAINED = {
    "main.py": ("main.py", OURS, "base/main.py.jinja"),
    "toy/custom/reward_manager.py": ("toy/custom/reward_manager.py", "yours, from a template", TEMPLATES),
    "toy.training.trainer": ("toy/training/trainer.py", OURS, "base/__package__/training/"),
    "LocalPPOTrainer.fit": ("toy.training.run_loop:RunLoop.fit", OURS, TEMPLATES),
    "LICENSE.verl": ("LICENSE.verl", "verl's, copied as it is", None),
    "vextract.lock": ("vextract.lock", "vextract's record", None),
    "Mine.run": ("toy.mine:Mine.run", OWNERS, None),
}


def test_explain_what_is_not_of_verl(run, project: Path) -> None:
    (project / "toy/mine.py").write_text("class Mine:\n    def run(self): ...\n", encoding="utf-8")
    for name, (subject, whose, template) in EXPLAINED.items():
        result = run("explain", name, project, code=0)
        assert result.err == ""
        first, *lines = result.out.splitlines()
        assert first == subject
        (said,) = [line for line in lines if line.startswith("  whose    ")]
        assert said.startswith(f"  whose    {whose}")
        found = [line for line in lines if line.startswith("  from     templates/")]
        assert [line.startswith(f"  from     templates/{template}") for line in found] == [True] * bool(template)


DONE = {
    "compute_policy_loss_gspo": ([], "  changed  nothing: its text is upstream's"),
    "compute_grpo_outcome_advantage": (["groups-row-by-row"], "  changed  imports redirected"),
    "HFRollout._generate_minibatch": (["hf-rollout-position-ids", "hf-rollout-empty-cache"], ""),
}


def test_explain_a_symbol_by_what_was_done_to_it_alone(run, project: Path) -> None:
    for name, (fixes, changed) in DONE.items():
        out = run("explain", name, project).out
        found = [fix.id for fix in releases.load("0.6.1").fixes if f"{fix.id}: {fix.why}" in out]
        assert (set(fixes) <= set(found), bool(found)) == (True, bool(fixes)), name
        assert f"\n{changed}" in out
        assert "unreachable" not in out


def test_verify_ends_with_a_verdict(run, project: Path) -> None:
    run("attack", project, "--python", sys.executable, code=0)  # which needs no sandbox of the project's
    (project / "toy/vendored/protocol.py").write_text("import nowhere\n", encoding="utf-8")
    result = run("verify", project, "--no-parity", code=1)
    assert result.out.splitlines()[-1] == "verdict: failed: imports, importable; not checked: parity"
    result = run("verify", project, "--provenance", "--strict")
    assert result.out.splitlines()[-1] == "verdict: failed: edits"
    assert "not inside a vextract project" in run("verify", project.parent).err


def test_explain_what_verl_has_and_this_project_has_not(run, project: Path) -> None:
    for name, said in (
        ("RayPPOTrainer", "verl 0.6.1 has it in verl/trainer/ppo/ray_trainer.py"),
        ("agg_los", "hint: did you mean agg_loss"),
        ("localppotraner", "hint: did you mean LocalPPOTrainer"),
    ):
        assert said in run("explain", name, project, code=2).err


def test_graph(run, project: Path) -> None:
    actor, protocol = "toy/vendored/workers/dp_actor.py", "toy/vendored/protocol.py"
    (project / "toy/custom/mine.py").write_text("from ..vendored.utils import device\nimport toy.main\nx = '\\d'\n")
    report = json.loads(run("graph", project, "--json", code=0).out)
    modules = {item["path"]: item for group in report["groups"] for item in group["modules"]}
    assert {item["kind"] for item in modules.values()} == {"vendored", "template", "hook", "owner"}
    assert modules[actor]["lines"] == (project / actor).read_bytes().count(b"\n")
    assert {protocol, "toy/vendored/algorithms/core_algos.py"} <= set(modules[actor]["imports"])
    assert modules["toy/custom/mine.py"]["imports"] == ["toy/vendored/utils/device.py"]
    assert actor in modules[protocol]["imported_by"]
    assert not any(path.startswith("tests/") for path in modules)
    lines = run("graph", project).out.splitlines()
    assert lines[0] == "toy: verl 0.6.1, engine hf, grpo"
    assert [line.split("  ")[0] for line in lines[3:]] == [group["name"] for group in report["groups"]]
    (workers,) = [line for line in lines if line.startswith("vendored/workers ")]
    assert {"vendored", "vendored/algorithms"} <= set(workers.partition("-> ")[2].split(", "))
