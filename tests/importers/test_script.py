"""Reading launch scripts: what bash would make of them, without running anything."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.placeholders import find_unknowns, make_readable, make_unknown
from extractor.importers.runs.reading import read_run
from extractor.values.errors import UsageError


# Each prints its words one a line: bash is asked what they are.
@pytest.mark.parametrize(
    "default",
    [
        r"[\"http://x:1/y\",\"b c\"]",
        r"{\"a\": 1, \"b\": [1, 2]}",
        r"[\"a\",$((1 + 2)),\"$(echo hi)\"]",
        r"{\"x\": \"${Q:-7}\"}",
        "(a b)",
        "<|im_end|>",
    ],
)
def test_a_default_between_quotes_is_characters(default: str) -> None:
    script = f'A="x ${{A:-{default}}} y"'
    said = subprocess.run(["bash", "-c", f'{script}; printf %s "$A"'], capture_output=True, text=True, check=True)
    found = read_script(f'{script}\npython3 -m verl.trainer.main_ppo a.b="$A"\n', "run.sh", {}, {})
    assert f"a.b={said.stdout}" in found.commands[0].words
    assert not found.notes


@pytest.mark.parametrize("name", ["${BASH_SOURCE[0]}", "$0"])
def test_the_folders_above_a_script(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'A=$(cd "$(dirname "{name}")" && pwd)\nB=$(cd -- "$(dirname "{name}")/../.." >/dev/null 2>&1 && pwd)\n'
    text += 'cd /\nC=$(cd "$(dirname "' + name + '")/.." && pwd)\nshow $A $B $C'
    monkeypatch.chdir(tmp_path)
    for file in ("a/b/run.sh", f"{tmp_path}/a/b/run.sh"):
        reading = read_script(text, file, {}, {"PWD": "/elsewhere"})
        assert reading.commands[-1].words == ("show", f"{tmp_path}/a/b", f"{tmp_path}", f"{tmp_path}/a")


def test_nothing_is_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    read_script(f"touch {target}\nX=$(touch {target})\n", "run.sh", {}, {})
    assert not target.exists()


def test_arguments_are_given_as_variables_whose_names_are_numbers() -> None:
    reading = read_script('show "$1" "$#" "$@"; show $2', "run.sh", {"2": "b", "1": "a"}, {})
    assert [command.words[1:] for command in reading.commands] == [("a", "2", "a", "b"), ("b",)]
    (command,) = read_script('show "$2" "[$1]"', "run.sh", {"2": "b"}, {}).commands
    assert command.words[1:] == ("b", "[]")


def test_what_is_unknown_in_a_list_is_named() -> None:
    assert find_unknowns(["a", {"b": make_unknown("X"), "c": [make_unknown("Y")]}, 1, None]) == ("X", "Y")


def test_what_is_unknown_keeps_its_name() -> None:
    (command,) = read_script("show $WHO/x $(date +%s) a${B}c", "run.sh", {}, {}).commands
    assert [make_readable(word) for word in command.words[1:]] == ["$WHO/x", "$(date +%s)", "a$Bc"]
    assert command.words[1] == f"{make_unknown('WHO')}/x"


def test_what_a_command_prints_is_asked_for_by_its_variable() -> None:
    script = "GPUS=$(devices -L | wc -l)\nSIZE=$((4 * GPUS))\nshow $GPUS $SIZE $((SIZE + 1)) $((A + B)) x_$GPUS"
    (command,) = read_script(script, "run.sh", {}, {}).commands
    gpus = make_unknown("GPUS")
    assert command.words == ("show", gpus, gpus, make_unknown("SIZE"), make_unknown("$((A + B))"), f"x_{gpus}")
    (command,) = read_script(script, "run.sh", {"GPUS": "2", "A": "1", "B": "1"}, {}).commands
    assert command.words == ("show", "2", "8", "9", "2", "x_2")


def test_what_an_unknown_command_decides_stays_unknown() -> None:
    (command,) = read_script("show $(nvidia-smi && echo a || echo b)", "run.sh", {}, {}).commands
    assert [make_readable(word) for word in command.words[1:]] == ["$(nvidia-smi && echo a || echo b)"]


def test_given_variables_win() -> None:
    (command,) = read_script("X=$(hostname)\nY=${Z:-1}\nshow $X $Y", "run.sh", {"X": "here", "Z": "2"}, {}).commands
    assert command.words == ("show", "here", "2")


def test_an_unknown_condition_leaves_what_it_decides_unknown() -> None:
    reading = read_script('X=1 \nif [ "$WHO" = me ]; then X=2; Y=3; else Y=3; fi\nshow $X $Y', "run.sh", {}, {})
    assert reading.commands[-1].words == ("show", make_unknown("X"), "3")
    assert "line 2: a condition is unknown, and so is what depends on it: X" in reading.notes


@pytest.mark.parametrize(
    ("start", "way", "shown", "left_out"),
    [
        ('X="show a"', 'X="$X b=1"', ("show", "a"), "b=1"),
        ("X=(show a)", "X+=(b=1 c)", ("show", "a"), "b=1 c"),
        ('X="show a"', 'X="$X b=$OF"', ("show", "a"), "b=$OF"),
        ('X="show a"', 'X="${X}b"', None, None),
        ("X=''", "X=show", None, None),
    ],
)
def test_words_that_an_unknown_condition_adds_are_left_out_and_named(
    start: str, way: str, shown: tuple[str, ...] | None, left_out: str | None
) -> None:
    use = '"${X[@]}"' if "(" in start else "$X"
    reading = read_script(f'{start}\nif [ "$WHO" = me ]; then\n  {way}\nfi\n{use}\n', "run.sh", {}, {})
    assert any(command.words == shown for command in reading.commands) is (shown is not None)
    said = f"line 2: a condition is unknown, and what X gets by it is left out: {left_out}"
    assert (said in reading.notes) is (left_out is not None)


def test_a_comment_ends_a_command() -> None:
    reading = read_script("show a \\\n  # b.c=1 \\\n  d.e=2 \\\n  f=3\n", "run.sh", {}, {})
    assert reading.commands[0].words == ("show", "a")
    assert any("d.e=2" in note and "no part of the command above" in note for note in reading.notes)


@pytest.mark.parametrize(
    "check",
    [
        'if [ "$N" -lt 2 ]; then echo few; exit 1; fi',
        '[ "$N" -lt 2 ] && { echo few >&2; exit 2; }',
        "case $N in 1) exit 1;; esac",
        "if [ $N -gt 2 ]; then X=2; else exit 1; fi",
    ],
)
def test_a_check_of_the_machine_does_not_end_the_reading(check: str) -> None:
    reading = read_script(f"N=${{N:-1}}\n{check}\nshow $N", "run.sh", {}, {})
    assert reading.commands[-1].words == ("show", "1")
    assert any(note.startswith("line 2:") and "reading continued" in note for note in reading.notes)


def test_what_follows_an_exit_is_not_read() -> None:
    reading = read_script("X=1\nif [ $X = 1 ]; then show a; exit 0; fi\nshow b\n", "run.sh", {}, {})
    assert [command.words for command in reading.commands] == [("show", "a")]


@pytest.mark.parametrize(
    "text",
    [
        "$ export N=4\n$ python -m verl.trainer.main_ppo a.b=$N \\\n>     c.d=x\n",
        "Run this:\n\n```bash\npython -m verl.trainer.main_ppo a.b=4 c.d=x\n```\n",
        'cmd=$(cat <<EOF\npython -m verl.trainer.main_ppo a.b=4 c.d=x\nEOF\n)\nbash -c "$cmd"\n',
        "N=4 python3 -m verl.trainer.main_ppo \\\n a.b=4 \\\n c.d=x 2>&1 | tee log\n",
    ],
)
def test_what_is_pasted(text: str, tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    file.write_text(text)
    assert [(item.key, item.value) for item in read_run(file, {}, {}).overrides] == [("a.b", 4), ("c.d", "x")]


def test_the_first_launch_of_a_page_is_taken(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(
        "# Runs\n\n```bash\npip install verl > log\n```\nthen (see *below*):\n\n```\nexport N=4\n"
        "A=1 python -m verl.trainer.main_ppo a.b=$N \\\n  c.d=x\n```\n"
        "or\n  ```sh\n  $ python -m verl.trainer.main_ppo a.b=5\n  ```\n"
    )
    run = read_run(page, {}, {})
    assert [(item.key, item.value) for item in run.overrides] == [("a.b", 4), ("c.d", "x")]
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
    "a list of commands, of which one has a shell read all": (
        "jobs:\n  - name: x\n    command:\n    - nvidia-smi\n    - |\n      bash -c '\n      set -x\n      export N=4\n"
        '      python -c "\n      print(1)\n      "\n      # ' + "long " * 100 + "\n"
        '      python3 -m verl.trainer.main_ppo a.b=$${N} "c.d=x y" 2>&1 | tee log\n      \'\n'
    ),
    "a program of one's own": "jobs:\n- command: [python, train.py, algorithm.adv_estimator=grpo, a.b=4, 'c.d=x y']\n",
    "words for a shell": f'spec:\n  command: [bash, -c]\n  args: ["{shlex.join(WORDS)}"]\n',
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_its_script(name: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOBS[name])
    run = read_run(file, {}, {})
    found = [(item.key, item.value) for item in run.overrides if item.key != "algorithm.adv_estimator"]
    assert found == [("a.b", 4), ("c.d", "x y")]
    known = re.compile("line 7: ray start|another trainer")
    assert not [note for note in run.notes if "line" in note and not known.search(note)]


def test_a_config_whose_values_name_a_launch_is_a_config(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("data: {train_files: x}\ntrainer: {experiment_name: python main_ppo a.b=1}\n")
    assert read_run(file, {}, {}).resolved is not None


def test_a_program_may_be_given_its_config_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/mine.yaml").write_text("data: {train_batch_size: 8}\n")
    (tmp_path / "run.sh").write_text("python -m verl.trainer.main_ppo conf/mine.yaml a.b=4\n")
    run = read_run(tmp_path / "run.sh", {}, {})
    assert run.overlay == ({"data": {"train_batch_size": 8}},)
    (tmp_path / "conf/mine.yaml").unlink()
    with pytest.raises(UsageError, match=r"its config conf/mine\.yaml is not here") as caught:
        read_run(tmp_path / "run.sh", {}, {})
    looked = caught.value.message.partition("looked in ")[2].rstrip(")").split(", ")
    assert str(tmp_path) in looked
    assert all(Path(place).is_dir() for place in looked)


def test_what_a_loop_puts_together_is_to_do(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(
        'FILES="["\nfor f in $DATA/*.parquet; do [ -f "$f" ] && FILES="$FILES$f,"; done\n'
        'python -m verl.trainer.main_ppo data.train_files="${FILES%,}]" a.b=1\n'
    )
    found = {item.key: item.value for item in read_run(file, {}, {}).overrides}
    assert (found["a.b"], make_readable(found["data.train_files"])) == (1, "${FILES%,}]")


@pytest.mark.parametrize("length", [300, 5000])
def test_a_text_too_long_for_a_path_is_none(tmp_path: Path, length: int) -> None:
    text = "x/" + "y" * length
    file = tmp_path / "run.sh"
    file.write_text(
        f"bash {text}\nsource {text}\n[ -f {text} ] && echo\nA=$(cat {text})\n"
        f"python -m verl.trainer.main_ppo data.train_files={text} custom_reward_function.path={text}.py\n"
    )
    run = read_run(file, {}, {})
    assert {item.key for item in run.overrides} == {"data.train_files", "custom_reward_function.path"}
    assert run.places.find_like(text) is None


def test_the_output_of_a_command_is_no_launch(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text('X=$(ssh host "python -m verl.trainer.main_ppo a.b=1")\nrun "$X"\n')
    with pytest.raises(UsageError, match="starts no main_ppo"):
        read_run(file, {}, {})


def test_paths_say_where_a_script_is_started(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "data").mkdir()
    script = tmp_path / "examples/run.sh"
    script.parent.mkdir()
    script.write_text("python -m verl.trainer.main_ppo a.b=$PWD/data c.d=$(pwd)/gone\n")
    values = [item.value for item in read_run(script, {}, {}).overrides]
    assert values == [f"{tmp_path}/data", f"{tmp_path}/gone"]
    values = [item.value for item in read_run(script, {}, {}, (), Path("/elsewhere")).overrides]
    assert values == ["/elsewhere/data", "/elsewhere/gone"]


def test_a_config_s_folder_may_begin_on_somebody_else_s_machine(tmp_path: Path) -> None:
    (tmp_path / "recipe/eyes/configs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    own = tmp_path / "recipe/eyes/configs/eyes.yaml"
    own.write_text("defaults:\n  - ppo_trainer\n  - _self_\ndata:\n  gen_batch_size: 7\n")
    script = tmp_path / "recipe/eyes/run.sh"
    for base in ("BASE=base_dir", "BASE=/home/somebody/work", "BASE="):
        script.write_text(
            f"{base}\npython3 -m verl.trainer.main_ppo --config-path=$BASE/recipe/eyes/configs --config-name=eyes\n"
        )
        assert read_run(script, {}, {}).overlay == ({"data": {"gen_batch_size": 7}},)


def test_a_recipe_in_a_repository_of_its_own_has_its_config(tmp_path: Path) -> None:
    folder = tmp_path / "recipes/mine"
    (folder / "config").mkdir(parents=True)
    (tmp_path / "recipes/setup.py").write_text("")
    (folder / "config/of_mine.yaml").write_text("defaults: [ppo_trainer, _self_]\nalgorithm: {gamma: 0.5}\n")
    program = "import hydra\n\n@hydra.main(config_path='config', config_name='of_mine')\ndef main(config): ...\n"
    (folder / "main_mine.py").write_text(program)
    script = folder / "run.sh"
    script.write_text("python3 -m recipe.mine.main_mine actor_rollout_ref.actor.grad_clip=1.0\n")
    assert read_run(script, {}, {}).overlay == ({"algorithm": {"gamma": 0.5}},)


def test_main_dapo_starts_from_its_own_config(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("python3 -m recipe.dapo.main_dapo data.train_batch_size=1\n")
    assert any("--config-dir" in note for note in read_run(script, {}, {}).notes)
    folder = tmp_path / "recipe/dapo"
    (folder / "config").mkdir(parents=True)
    (folder / "main_dapo.py").write_text(
        '@hydra.main(config_path="config", config_name="dapo_trainer", version_base=None)\ndef main(config): ...\n'
    )
    (folder / "config/dapo_trainer.yaml").write_text(
        "defaults:\n  - ppo_trainer\n  - _self_\ndata:\n  gen_batch_size: 7\n"
    )
    run = read_run(script, {}, {})
    assert run.overlay == ({"data": {"gen_batch_size": 7}},)
    assert run.config_name == "ppo_trainer"


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ("uv run --extra fsdp -m skyrl.train.entrypoints.main_base trainer.epochs=2", "starts no main_ppo"),
        ("python3 examples/run_grpo_math.py grpo.num_prompts_per_step=8 policy.model_name=x", "starts no main_ppo"),
        ("ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --a b --n 2 --m 4 --lr 1e-6", "starts no main_ppo"),
        ("python -m pip install a==1", "starts no main_ppo"),
        ("echo python train.py a=1", "starts no main_ppo"),
    ],
)
def test_another_framework_is_refused(tmp_path: Path, launch: str, said: str) -> None:
    (tmp_path / "run.sh").write_text(launch)
    with pytest.raises(UsageError) as error:
        read_run(tmp_path / "run.sh", {}, {})
    assert said in str(error.value)


@pytest.mark.parametrize(
    "launch",
    [
        "python -m ragen.main_ppo env.name=sokoban actor_rollout_ref.rollout.n=2",
        "python3 -m verl.trainer.main_ppo data.train_batch_size=8",
        "python3 -m verl.trainer.main_ppo env.name=x",
        "torchrun --nproc-per-node 8 own/train.py algorithm.adv_estimator=grpo search.topk=3",
    ],
)
def test_forks_with_programs_and_sections_of_their_own_are_read(tmp_path: Path, launch: str) -> None:
    (tmp_path / "run.sh").write_text(launch)
    assert read_run(tmp_path / "run.sh", {}, {}).program in launch
