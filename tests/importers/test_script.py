"""Reading launch scripts: what bash would make of them, without running anything."""

import re
import shlex
from pathlib import Path

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.placeholders import find_unknowns, make_readable, make_unknown
from extractor.importers.runs.run import Run
from extractor.importers.runs.run_reader import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put


def run_of(folder: Path, text: str, files: dict[str, str] | None = None, name: str = "run.sh") -> Run:
    return read_run(put(folder, {**(files or {}), name: text}) / name, {}, {})


def values(run: Run) -> list[tuple[str, object]]:
    return [(item.key, item.value) for item in run.overrides]


def test_nothing_is_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    read_script(f"touch {target}\nX=$(touch {target})\n", "run.sh", {}, {})
    assert not target.exists()


def test_arguments_are_given_as_variables_whose_names_are_numbers() -> None:
    reading = read_script('show "$1" "$#" "$@"; show $2', "run.sh", {"2": "b", "1": "a"}, {})
    assert [command.words[1:] for command in reading.commands] == [("a", "2", "a", "b"), ("b",)]
    (command,) = read_script('show "$2" "[$1]"', "run.sh", {"2": "b"}, {}).commands
    assert command.words[1:] == ("b", "[]")


def test_what_is_unknown_keeps_its_name() -> None:
    assert find_unknowns(["a", {"b": make_unknown("X"), "c": [make_unknown("Y")]}, 1, None]) == ("X", "Y")
    text = "show $WHO/x $(date +%s) a${B}c $(nvidia-smi && echo a || echo b)"
    (command,) = read_script(text, "run.sh", {}, {}).commands
    shown = [make_readable(word) for word in command.words[1:]]
    assert shown == ["$WHO/x", "$(date +%s)", "a$Bc", "$(nvidia-smi && echo a || echo b)"]
    assert command.words[1] == f"{make_unknown('WHO')}/x"


def test_what_a_command_prints_is_asked_for_by_its_variable() -> None:
    script = "GPUS=$(devices -L | wc -l)\nSIZE=$((4 * GPUS))\nshow $GPUS $SIZE $((SIZE + 1)) $((A + B)) x_$GPUS"
    (command,) = read_script(script, "run.sh", {}, {}).commands
    gpus = make_unknown("GPUS")
    assert command.words == ("show", gpus, gpus, make_unknown("SIZE"), make_unknown("$((A + B))"), f"x_{gpus}")
    (command,) = read_script(script, "run.sh", {"GPUS": "2", "A": "1", "B": "1"}, {}).commands
    assert command.words == ("show", "2", "8", "9", "2", "x_2")


def test_an_unknown_condition_leaves_what_it_decides_unknown() -> None:
    reading = read_script('X=1 \nif [ "$WHO" = me ]; then X=2; Y=3; else Y=3; fi\nshow $X $Y', "run.sh", {}, {})
    assert reading.commands[-1].words == ("show", make_unknown("X"), "3")
    assert "line 2: a condition is unknown, and so is what depends on it: X" in reading.notes


def test_words_that_an_unknown_condition_adds_are_left_out_and_named() -> None:
    for start, way, use, left_out in (
        ('X="show a"', 'X="$X b=1"', "$X", "b=1"),
        ("X=(show a)", "X+=(b=1 c)", '"${X[@]}"', "b=1 c"),
        ('X="show a"', 'X="$X b=$OF"', "$X", "b=$OF"),
        ('X="show a"', 'X="${X}b"', "$X", None),
        ("X=''", "X=show", "$X", None),
    ):
        reading = read_script(f'{start}\nif [ "$WHO" = me ]; then\n  {way}\nfi\n{use}\n', "run.sh", {}, {})
        assert any(command.words == ("show", "a") for command in reading.commands) is (left_out is not None), way
        said = f"line 2: a condition is unknown, and what X gets by it is left out: {left_out}"
        assert (said in reading.notes) is (left_out is not None)


def test_a_comment_ends_a_command() -> None:
    reading = read_script("show a \\\n  # b.c=1 \\\n  d.e=2 \\\n  f=3\n", "run.sh", {}, {})
    assert reading.commands[0].words == ("show", "a")
    assert any("d.e=2" in note and "no part of the command above" in note for note in reading.notes)


def test_a_check_of_the_machine_does_not_end_the_reading() -> None:
    for check in (
        'if [ "$N" -lt 2 ]; then echo few; exit 1; fi',
        '[ "$N" -lt 2 ] && { echo few >&2; exit 2; }',
        "case $N in 1) exit 1;; esac",
        "if [ $N -gt 2 ]; then X=2; else exit 1; fi",
    ):
        reading = read_script(f"N=${{N:-1}}\n{check}\nshow $N", "run.sh", {}, {})
        assert reading.commands[-1].words == ("show", "1")
        assert any(note.startswith("line 2:") and "reading continued" in note for note in reading.notes)


PASTED = (
    "$ export N=4\n$ python -m verl.trainer.main_ppo a.b=$N \\\n>     c.d=x\n",
    "Run this:\n\n```bash\npython -m verl.trainer.main_ppo a.b=4 c.d=x\n```\n",
    "N=4 python3 -m verl.trainer.main_ppo \\\n a.b=4 \\\n c.d=x 2>&1 | tee log\n",
)
PAGE = """# Runs

```bash
pip install verl > log
```
then (see *below*):

```
export N=4
A=1 python -m verl.trainer.main_ppo a.b=$N \\
  c.d=x
```
or
  ```sh
  $ python -m verl.trainer.main_ppo a.b=5
  ```
"""


def test_what_is_pasted_and_the_first_launch_of_a_page(tmp_path: Path) -> None:
    for text in PASTED:
        assert values(run_of(tmp_path, text, name="run.txt")) == [("a.b", 4), ("c.d", "x")], text
    run = run_of(tmp_path, PAGE, name="README.md")
    assert values(run) == [("a.b", 4), ("c.d", "x")]
    assert run.notes == ("2 launches: the first, in line 10, is the one that is taken",)


WORDS = ["python3", "-m", "verl.trainer.main_ppo", "a.b=4", "c.d=x y"]
JOBS = {
    "a script of its own": "envs:\n  N: 4\n  KEY: null\nsetup: |\n  pip install verl\nrun: |\n  ray start --head\n"
    "  python3 -m verl.trainer.main_ppo a.b=$N 'c.d=x y'\n",
    "commands": "type: task\nenv:\n  - N=4\n  - KEY\ncommands:\n  - cd verl\n"
    "  - python3 -m verl.trainer.main_ppo a.b=$N\n    'c.d=x y'\n",
    "an entry point": "kind: RayJob\nspec:\n  entrypoint: >-\n"
    "    python3 -m verl.trainer.main_ppo\n    a.b=4 'c.d=x y'\n",
    "words": f"spec:\n  containers:\n  - name: x\n    command: {WORDS}\n",
    "a program of one's own": "jobs:\n- command: [python, train.py, algorithm.adv_estimator=grpo, a.b=4, 'c.d=x y']\n",
    "words for a shell": f'spec:\n  command: [bash, -c]\n  args: ["{shlex.join(WORDS)}"]\n',
}


def test_a_job_is_its_script(tmp_path: Path) -> None:
    known = re.compile("line 7: ray start|another trainer")
    for name, text in JOBS.items():
        run = run_of(tmp_path, text, name="job.yaml")
        found = [item for item in values(run) if item[0] != "algorithm.adv_estimator"]
        assert found == [("a.b", 4), ("c.d", "x y")], name
        assert not [note for note in run.notes if "line" in note and not known.search(note)]
    config = "data: {train_files: x}\ntrainer: {experiment_name: python main_ppo a.b=1}\n"
    assert run_of(tmp_path, config, name="config.yaml").resolved is not None  # though a value names a launch


def test_a_program_may_be_given_its_config_as_a_file(tmp_path: Path) -> None:
    launch = "python -m verl.trainer.main_ppo conf/mine.yaml a.b=4\n"
    run = run_of(tmp_path, launch, {"conf/mine.yaml": "data: {train_batch_size: 8}\n"})
    assert run.overlay == ({"data": {"train_batch_size": 8}},)
    (tmp_path / "conf/mine.yaml").unlink()
    with pytest.raises(UsageError, match=r"its config conf/mine\.yaml is not here") as caught:
        run_of(tmp_path, launch)
    looked = caught.value.message.partition("looked in ")[2].rstrip(")").split(", ")
    assert str(tmp_path) in looked
    assert all(Path(place).is_dir() for place in looked)


def test_what_a_loop_puts_together_is_to_do(tmp_path: Path) -> None:
    text = 'FILES="["\nfor f in $DATA/*.parquet; do [ -f "$f" ] && FILES="$FILES$f,"; done\n'
    text += 'python -m verl.trainer.main_ppo data.train_files="${FILES%,}]" a.b=1\n'
    found = dict(values(run_of(tmp_path, text)))
    assert (found["a.b"], make_readable(str(found["data.train_files"]))) == (1, "${FILES%,}]")


def test_a_text_too_long_for_a_path_is_none(tmp_path: Path) -> None:
    for length in (300, 5000):
        text = "x/" + "y" * length
        script = f"bash {text}\nsource {text}\n[ -f {text} ] && echo\nA=$(cat {text})\n"
        script += f"python -m verl.trainer.main_ppo data.train_files={text} custom_reward_function.path={text}.py\n"
        run = run_of(tmp_path, script)
        assert [key for key, _ in values(run)] == ["data.train_files", "custom_reward_function.path"]
        assert run.places.find_like(text) is None


def test_paths_say_where_a_script_is_started(tmp_path: Path) -> None:
    launch = "python -m verl.trainer.main_ppo a.b=$PWD/data c.d=$(pwd)/gone\n"
    script = put(tmp_path, {".git/config": "", "data/x": "", "examples/run.sh": launch}) / "examples/run.sh"
    for cwd, there in ((None, tmp_path), (Path("/elsewhere"), "/elsewhere")):
        found = values(read_run(script, {}, {}, (), cwd))
        assert found == [("a.b", f"{there}/data"), ("c.d", f"{there}/gone")]


def test_a_config_s_folder_may_begin_on_somebody_else_s_machine(tmp_path: Path) -> None:
    own = "defaults:\n  - ppo_trainer\n  - _self_\ndata:\n  gen_batch_size: 7\n"
    put(tmp_path, {"pyproject.toml": "", "recipe/eyes/configs/eyes.yaml": own})
    for base in ("BASE=base_dir", "BASE=/home/somebody/work", "BASE="):
        launch = "python3 -m verl.trainer.main_ppo --config-path=$BASE/recipe/eyes/configs --config-name=eyes\n"
        run = run_of(tmp_path, f"{base}\n{launch}", name="recipe/eyes/run.sh")
        assert run.overlay == ({"data": {"gen_batch_size": 7}},)


def test_a_recipe_s_own_config_is_found_beside_its_program(tmp_path: Path) -> None:
    """Also in a repository of its own."""
    program = "import hydra\n\n@hydra.main(config_path='config', config_name='{}')\ndef main(config): ...\n"
    own = "defaults: [ppo_trainer, _self_]\nalgorithm: {gamma: 0.5}\n"
    launch = "python3 -m {} actor_rollout_ref.actor.grad_clip=1.0\n"
    dapo = launch.format("recipe.dapo.main_dapo")
    assert any("--config-dir" in note for note in run_of(tmp_path / "bare", dapo).notes)
    for folder, name, script, text in (
        ("recipes/mine", "mine", "recipes/mine/run.sh", launch.format("recipe.mine.main_mine")),
        ("recipe/dapo", "dapo", "run.sh", dapo),
    ):
        files = {f"{folder}/main_{name}.py": program.format(f"{name}_trainer"), "recipes/setup.py": ""}
        run = run_of(tmp_path / name, text, {**files, f"{folder}/config/{name}_trainer.yaml": own}, name=script)
        assert run.overlay == ({"algorithm": {"gamma": 0.5}},)
        assert run.config_name == "ppo_trainer"


def test_another_framework_is_refused(tmp_path: Path) -> None:
    for launch in (
        "uv run --extra fsdp -m skyrl.train.entrypoints.main_base trainer.epochs=2",
        "python3 examples/run_grpo_math.py grpo.num_prompts_per_step=8 policy.model_name=x",
        "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --a b --n 2 --m 4 --lr 1e-6",
        "python -m pip install a==1",
        "echo python train.py a=1",
        'X=$(ssh host "python -m verl.trainer.main_ppo a.b=1")\nrun "$X"',  # the output of a command is no launch
    ):
        with pytest.raises(UsageError, match="starts no main_ppo"):
            run_of(tmp_path, launch)


def test_forks_with_programs_and_sections_of_their_own_are_read(tmp_path: Path) -> None:
    for launch in (
        "python -m ragen.main_ppo env.name=sokoban actor_rollout_ref.rollout.n=2",
        "python3 -m verl.trainer.main_ppo data.train_batch_size=8",
        "python3 -m verl.trainer.main_ppo env.name=x",
        "torchrun --nproc-per-node 8 own/train.py algorithm.adv_estimator=grpo search.topk=3",
    ):
        assert run_of(tmp_path, launch).program in launch
