"""The commands that only report: explain, versions, verify."""

import json
import re
import sys
from pathlib import Path

from extractor.pipeline.rewrite.apply_fixes import changes_definition
from extractor.project import lock
from extractor.usecases.explain import TemplateFiles
from extractor.values import releases, resources


def test_versions(run) -> None:
    result = run("versions")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert len(lines) < 24
    # Each line says what the manifest says.
    text, known = " ".join(" ".join(lines).split()), list(reversed(releases.list_supported()))
    for release, older in zip(known, [*known[1:], known[-1]], strict=True):
        manifest = releases.load(release)
        said = f"{release} engines {', '.join(manifest.engines)}; {len(manifest.algorithms)} presets"
        came = {item.name for item in manifest.features} - {item.name for item in releases.load(older).features}
        assert said + (f"; new: {', '.join(sorted(came))} " if came else " ") in text
    everywhere = ", ".join(sorted(item.name for item in releases.load(known[-1]).features))
    assert f"in all of them: {everywhere} default: " in text
    newest = run("versions", releases.find_default()).out
    assert newest.startswith(f"verl {releases.find_default()} (default)\n  engines     hf, sglang, vllm\n")
    assert "    critic " in newest
    assert "(on with ppo)" in newest
    assert run("versions", "-v").out.startswith(newest)


def test_versions_of_a_name_and_as_json(run) -> None:
    assert run("versions", "gspo").out.startswith("gspo  a preset, for --algorithm\n  in verl 0.9.1, ")
    assert "an engine" in run("versions", "vllm").out
    assert "a feature: " in run("versions", "lora").out
    result = run("versions", "vlm", code=2)
    assert result.out == ""
    assert "hint: did you mean vllm?" in result.err
    report = json.loads(run("versions", "--json").out)
    assert [item["release"] for item in report] == list(reversed(releases.list_supported()))
    assert {"name", "summary", "algorithms", "engines", "needs", "requirements"} <= set(report[0]["features"][0])


def test_a_feature_says_what_it_adds_and_needs(run, verl) -> None:
    told = run("versions", "rollout_correction").out.splitlines()[1]
    added = re.match(
        r"  adds (\d+) lines of ours and ([\d,]+) of verl's in a project of [\d.]+; needs nothing else", told
    )
    assert added is not None, told
    assert 50 < int(added[1]) < 200 < int(added[2].replace(",", "")), told
    assert "needs tools, starlette" in run("versions", "agents").out


def test_explain_a_symbol(run, project: Path) -> None:
    result = run("explain", "agg_loss", project)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "verl.trainer.ppo.core_algos:agg_loss"
    assert lines[1] == "  in       toy/vendored/algorithms/core_algos.py"
    assert lines[2].startswith("  whose    verl's: ")
    assert lines[3] == "  from     verl/trainer/ppo/core_algos.py"
    entry = lock.read(project).file("toy/vendored/algorithms/core_algos.py")
    assert lines[4] == f"  release  verl 0.6.1, sha256 of that file {entry.upstream_sha256}"
    assert lines[5] == "  why      verl.trainer.ppo.core_algos:agg_loss is a root (role algorithms)"


def test_explain_a_file_as_json(run, project: Path, monkeypatch) -> None:
    monkeypatch.chdir(project)
    (report,) = json.loads(run("explain", "toy/vendored/workers/dp_actor.py", "--json").out)
    assert report["upstream_path"] == "verl/workers/actor/dp_actor.py"
    entry = lock.read(project).file("toy/vendored/workers/dp_actor.py")
    assert (report["release"], report["upstream_sha256"]) == ("0.6.1", entry.upstream_sha256)
    assert report["changes"] == [change for change in entry.changes if not change.startswith("fix ")]
    assert "DataParallelPPOActor" in report["symbols"]
    assert report["chain"][0]["how"] == "root"


OURS, OWNERS, TEMPLATES = "ours, from a template", "yours: no command of vextract writes it", "base/__package__/"
# What is asked for: what it is, whose it is, and the beginning of its template's name.
EXPLAINED = {
    "main.py": ("main.py", OURS, "base/main.py.jinja"),
    "config/ppo_trainer.yaml": ("config/ppo_trainer.yaml", OURS, "base/config/ppo_trainer.yaml"),
    "toy/custom/reward_manager.py": ("toy/custom/reward_manager.py", "yours, from a template", TEMPLATES),
    "toy.training.trainer": ("toy/training/trainer.py", OURS, "base/__package__/training/"),
    "LocalPPOTrainer": ("toy.training.trainer:LocalPPOTrainer", OURS, TEMPLATES),
    "LocalPPOTrainer.train_step": ("toy.training.trainer:LocalPPOTrainer.train_step", OURS, TEMPLATES),
    "LocalPPOTrainer.fit": ("toy.training.run_loop:RunLoop.fit", OURS, TEMPLATES),
    "toy/data/__init__.py": ("toy/data/__init__.py", OURS, None),
    "LICENSE.verl": ("LICENSE.verl", "verl's, copied as it is", None),
    "vextract.lock": ("vextract.lock", "vextract's record", None),
    "toy/mine.py": ("toy/mine.py", OWNERS, None),
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


def test_explain_every_file_of_the_lock(run, project: Path, empty_cache: Path) -> None:
    """Each has one answer, and its template is a file of templates/; what is ours needs no verl."""
    run("explain", "main.py", project, "--offline", code=0)
    locked = lock.read(project)
    ours = TemplateFiles(project, locked, releases.load(locked.options.verl))
    for file in locked.files:
        if file.upstream_path and file.path.endswith(".py"):
            continue
        found = ours.file(file.path)
        assert found is not None, file.path
        assert found.note.startswith(("as it was", "missing")), file.path
        for template in found.templates:
            assert (resources.find_templates() / template).is_file(), template
        assert found.templates or file.upstream_path or file.path.endswith("__init__.py"), file.path


DONE = {
    "compute_policy_loss_gspo": ([], "  changed  nothing: its text is upstream's"),
    "compute_grpo_outcome_advantage": (["groups-row-by-row"], "  changed  imports redirected"),
    "HFRollout._generate_minibatch": (["hf-rollout-position-ids", "hf-rollout-empty-cache"], ""),
    "HFRollout.generate_sequences": ([], "  changed  nothing"),
    "RLHFDataset": (["overlong-prompt-filter"], "  changed  "),
}


def test_explain_a_symbol_by_what_was_done_to_it_alone(run, project: Path) -> None:
    for name, (fixes, changed) in DONE.items():
        out = run("explain", name, project).out
        found = [fix.id for fix in releases.load("0.6.1").fixes if f"{fix.id}: {fix.why}" in out]
        assert set(fixes) <= set(found), name
        assert bool(found) is bool(fixes), name
        assert f"\n{changed}" in out
        assert "unreachable" not in out
    for options in ([], ["--json"]):
        result = run("explain", "HFRollout", project, *options)
        assert result.out.count("hf-rollout-position-ids") == 1
        assert "fixes" in result.out
    # A fix without edits touches what uses the names that it replaces.
    fix = next(item for item in releases.load("0.4.0").fixes if item.id == "actor-remove-padding-without-flash-attn")
    assert changes_definition(fix, "def f(x):\n    return pad_input(x)\n")
    assert not changes_definition(fix, "def f(x):\n    return x.pad_input\n")


def test_explain_what_its_owner_edited(run, project: Path) -> None:
    path = "toy/vendored/algorithms/core_algos.py"
    text = (project / path).read_text()
    (project / path).write_text(text.replace("torch.std(scores_tensor)", "torch.std(scores_tensor) * 2"))
    edited = f"\n  note     edited: `vextract diff {path}` shows how"
    for name, is_edited in (("compute_grpo_outcome_advantage", True), ("core_algos.py", True), ("agg_loss", False)):
        assert (edited in run("explain", name, project).out) is is_edited
    (project / path).write_text(text.replace("def compute_policy_loss_gspo(", "def compute_policy_loss_gspo(here, "))
    out = run("explain", "compute_policy_loss_gspo", project).out
    assert edited in out
    assert "nothing: its text is upstream's" not in out


def test_attack_needs_no_sandbox_of_the_project(run, project: Path) -> None:
    run("attack", project, "--python", sys.executable, code=0)


def test_verify_ends_with_a_verdict(run, project: Path) -> None:
    (project / "toy/vendored/protocol.py").write_text("import nowhere\n", encoding="utf-8")
    result = run("verify", project, "--no-parity", code=1)
    assert result.out.splitlines()[-1] == "verdict: failed: imports, importable; not checked: parity"
    result = run("verify", project, "--provenance", "--strict")
    assert result.out.splitlines()[-1] == "verdict: failed: edits"
    assert "not inside a vextract project" in run("verify", project.parent).err


def test_explain_what_verl_has_and_this_project_has_not(run, project: Path) -> None:
    result = run("explain", "RayPPOTrainer", project)
    assert (result.code, result.out) == (2, "")
    assert "verl 0.6.1 has it in verl/trainer/ppo/ray_trainer.py" in result.err
    result = run("explain", "agg_los", project)
    assert "hint: did you mean agg_loss" in result.err
    result = run("explain", "localppotraner", project)
    assert "hint: did you mean LocalPPOTrainer" in result.err
