"""Reading launch scripts: what bash would make of them, without running anything."""

from pathlib import Path

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.placeholders import find_unknowns, make_readable, make_unknown
from extractor.importers.runs.run import Run
from extractor.importers.runs.run_reader import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put, vextract


def run_of(folder: Path, text: str, files: dict[str, str] | None = None, name: str = "run.sh") -> Run:
    return read_run(put(folder, {**(files or {}), name: text}) / name, {}, {})


def values(run: Run) -> list[tuple[str, object]]:
    return [(item.key, item.value) for item in run.overrides]


def test_nothing_is_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    read_script(f"touch {target}\nX=$(touch {target})\n", "run.sh", {}, {})
    assert not target.exists()


def test_what_is_unknown_keeps_its_name() -> None:
    assert find_unknowns(["a", {"b": make_unknown("X"), "c": [make_unknown("Y")]}, 1, None]) == ("X", "Y")
    text = "show $WHO/x $(date +%s) a${B}c $(nvidia-smi && echo a || echo b)"
    (command,) = read_script(text, "run.sh", {}, {}).commands
    shown = [make_readable(word) for word in command.words[1:]]
    assert shown == ["$WHO/x", "$(date +%s)", "a$Bc", "$(nvidia-smi && echo a || echo b)"]
    assert command.words[1] == f"{make_unknown('WHO')}/x"


def test_an_unknown_condition_leaves_what_it_decides_unknown() -> None:
    reading = read_script('X=1 \nif [ "$WHO" = me ]; then X=2; Y=3; else Y=3; fi\nshow $X $Y', "run.sh", {}, {})
    assert reading.commands[-1].words == ("show", make_unknown("X"), "3")
    assert "line 2: a condition is unknown, and so is what depends on it: X" in reading.notes


def test_a_comment_ends_a_command() -> None:
    reading = read_script("show a \\\n  # b.c=1 \\\n  d.e=2 \\\n  f=3\n", "run.sh", {}, {})
    assert reading.commands[0].words == ("show", "a")
    assert any("d.e=2" in note and "no part of the command above" in note for note in reading.notes)


def test_a_check_of_the_machine_does_not_end_the_reading() -> None:
    for check in ('if [ "$N" -lt 2 ]; then echo few; exit 1; fi', '[ "$N" -lt 2 ] && { echo few >&2; exit 2; }'):
        reading = read_script(f"N=${{N:-1}}\n{check}\nshow $N", "run.sh", {}, {})
        assert reading.commands[-1].words == ("show", "1")
        assert any(note.startswith("line 2:") and "reading continued" in note for note in reading.notes)


def test_paths_say_where_a_script_is_started(tmp_path: Path) -> None:
    launch = "python -m verl.trainer.main_ppo a.b=$PWD/data c.d=$(pwd)/gone\n"
    script = put(tmp_path, {".git/config": "", "data/x": "", "examples/run.sh": launch}) / "examples/run.sh"
    for cwd, there in ((None, tmp_path), (Path("/elsewhere"), "/elsewhere")):
        found = values(read_run(script, {}, {}, (), cwd))
        assert found == [("a.b", f"{there}/data"), ("c.d", f"{there}/gone")]


def test_a_recipe_s_own_config_is_found_beside_its_program(tmp_path: Path) -> None:
    program = "import hydra\n\n@hydra.main(config_path='config', config_name='mine_trainer')\ndef main(config): ...\n"
    own = "defaults: [ppo_trainer, _self_]\nalgorithm: {gamma: 0.5}\n"
    launch = "python3 -m recipe.mine.main_mine actor_rollout_ref.actor.grad_clip=1.0\n"
    files = {"recipes/mine/main_mine.py": program, "recipes/setup.py": ""}
    bare = run_of(tmp_path / "bare", launch.replace("mine.main_mine", "dapo.main_dapo"))
    assert any("--config-dir" in note for note in bare.notes)
    files["recipes/mine/config/mine_trainer.yaml"] = own
    run = run_of(tmp_path, launch, files, name="recipes/mine/run.sh")
    assert (run.overlay, run.config_name) == (({"algorithm": {"gamma": 0.5}},), "ppo_trainer")


def test_another_framework_is_refused(tmp_path: Path) -> None:
    for launch in (
        "uv run --extra fsdp -m skyrl.train.entrypoints.main_base trainer.epochs=2",
        "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --a b --n 2 --m 4 --lr 1e-6",
        "echo python train.py a=1",
        'X=$(ssh host "python -m verl.trainer.main_ppo a.b=1")\nrun "$X"',  # the output of a command is no launch
    ):
        with pytest.raises(UsageError, match="starts no main_ppo"):
            run_of(tmp_path, launch)


def test_forks_with_programs_and_sections_of_their_own_are_read(tmp_path: Path) -> None:
    for launch in (
        "python -m ragen.main_ppo env.name=sokoban actor_rollout_ref.rollout.n=2",
        "python3 -m verl.trainer.main_ppo env.name=x",
        "torchrun --nproc-per-node 8 own/train.py algorithm.adv_estimator=grpo search.topk=3",
    ):
        assert run_of(tmp_path, launch).program in launch


def test_what_is_not_read_is_refused_with_the_way_round(tmp_path: Path) -> None:
    started, program = (
        "from verl.trainer.main_ppo import run_ppo\nrun_ppo(c)\n",
        "programs, notebooks and pages are not read",
    )
    for name, text, said, hint in (
        ("a.ipynb", '{"cells": 1}', program, "bash script"),
        ("start.py", started, program, "run.yaml"),
        ("README.md", "```\npython -m verl.trainer.main_ppo a.b=1\n```\n", program, "a bash script with its command"),
        ("job.yaml", "run: python -m verl.trainer.main_ppo a.b=1\n", "no config of verl's trainer", "a job's command"),
        ("overrides.txt", "a.b=1\nc.d=2\n", "it starts no main_ppo", "pass the script that runs"),
        ("paste.sh", "$ python -m verl.trainer.main_ppo \\\n>  a.b=1\n", "`\\$ python", "--cfg job --resolve"),
        ("launch.json", '{"configurations": []}', "no config of verl's trainer", "--cfg job --resolve"),
        ("run.sh", "python start.py --lr 1\n", "it starts no main_ppo", "main_ppo"),
        ("log.txt", "loss: 1 (epoch 2\n", "log.txt:1: ", "--cfg job --resolve > run.yaml"),
    ):
        with pytest.raises(UsageError, match=said) as error:
            read_run(put(tmp_path, {name: text}) / name, {}, {})
        assert hint in str(error.value.hint), name


LAUNCH = "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"
NEITHER = "no supported release of verl has this key, and it changes learning"
UNLEARNT = {
    "python3 -m recipe.prime.main_prime algorithm.adv_estimator=rloo": (
        "run.sh:1: verl's recipe for PRIME is not read",
        "`vextract new myproj --algorithm prime` makes a project for it",
    ),
    f"{LAUNCH} reward_model.rm_type=prime reward_model.rm_coef=7": (f"rm_type=prime: {NEITHER}", ""),
    f"{LAUNCH} actor_rollout_ref.actor.tis_imp_ratio_cap=2": (f"tis_imp_ratio_cap=2: {NEITHER}", "say in its place"),
}


def test_what_changes_what_is_learned_is_refused_with_the_way_round(tmp_path: Path) -> None:
    for launch, (said, hint) in UNLEARNT.items():
        script = put(tmp_path, {"run.sh": f"{launch}\n"}) / "run.sh"
        refused = vextract("new", tmp_path / "own", "--from-verl-run", script, "--keep-unknown")
        assert (refused.code, said in refused.err, hint in refused.err) == (2, True, True), refused.err
        assert ("say in its place" in refused.err) is hint.startswith("say")
