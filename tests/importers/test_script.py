"""Reading launch scripts: what bash would make of them, without running anything."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.reading import read_run
from extractor.importers.runs.unknowns import readable, unknown, unknowns
from extractor.values.errors import UsageError

# Each prints its words one a line: bash is asked what they are.
SPECIMENS = {
    "plain": "show a b=c",
    "continuation": "show a \\\n  b \\\n  c",
    "variables": 'X=1; Y="$X/2"; show $X "$Y" ${X}y "${Y}"',
    "defaults": 'show ${A:-y} ${B-z} ${C:=w} $C "${D:-a b}" ${E:+no} ${C:+yes}',
    "nested default": 'M=${MODEL:-${BASE:-/models}/qwen}; show "$M"',
    "quotes": """show 'a b' "c \\"d\\"" e\\ f "g'h'" 'i"j"'""",
    "lists": """T="['/a/x.parquet','/b/y.parquet']"; show data.train_files="$T" trainer.logger='["console","wandb"]'""",
    "escaped list": "show trainer.logger=[\\'console\\',\\'wandb\\']",
    "dictionaries": "show '+x.y={a: 1, b: [c]}'",
    "array": 'A=(a "b c"); A+=(d); show "${A[@]}" "${#A[@]}" ${A[1]}',
    "array of lines": 'A=(\n  x=1  # why\n  # nothing\n  "y=$HOME"\n)\nshow "${A[@]}"',
    "empty array": 'A=(); show "${A[@]}" end',
    "conditional array": 'A=(); B=(x); show ${A[@]+"${A[@]}"} ${B[@]+"${B[@]}"}',
    "map": 'declare -A M=([a]=1 [b]=2); show ${M[a]} ${M["b"]}',
    "side by side": 'A=1; B="2 3"; C="$A $B"; show "$C" "$A  $B" "${A} ${B}" "$A\t $B" $C',
    "outputs side by side": 'A=1; show "$(echo x) $(echo y)" "`echo x` $A" "$A `echo x`"',
    "arrays side by side": 'A=1; B=(2 3); show "$A ${B[@]}" "$A ${B[1]}" "$A ${#B[@]} ${B[*]}" "$A ${B[@]:1} ${A:0:1}"',
    "side by side, over lines": 'A=1; B=2; show "$A\n$B" "$A \\\n  $B" "$A\n\n ${B}" "$@ $A" "$# $1" "$((1)) $((2))"',
    "a document of expansions": 'A=1; B=2\nX=$(cat <<EOF\n$A $B  ${A} $(echo x) $B\n$A\n$B\nEOF\n)\nshow "$X"',
    "arguments": 'show "$@" $# ${1} ${2:-two}',
    "shift": "N=${1:-8}; shift; show n=$N $@",
    "arithmetic": "N=4; show $((N * 2 + 1)) $(( (N + 3) / 2 )) $((N > 3 ? 8 : 9)) $((2**3)) $((N % 3))",
    "trimming": "P=/a/b.tar.gz; show ${P##*/} ${P%.gz} ${P%%.*} ${P#/} ${P/a/x} ${P//a/y} ${P:1:3} ${P^^}",
    "if": 'X=vllm; if [ "$X" = "vllm" ]; then Y=1; elif [ "$X" = "sglang" ]; then Y=2; else Y=3; fi; show $Y',
    "elif": 'X=2; if [[ $X == 1 ]]; then Y=a; elif [[ $X -gt 1 && -n "$X" ]]; then Y=b; else Y=c; fi; show $Y',
    "arithmetic if": "N=3; if (( N > 2 )); then Y=more; else Y=less; fi; show $Y",
    "and or": '[ -z "$NOTHING" ] && Y=empty || Y=full; show $Y',
    "case": "X=grpo; case $X in ppo|gae) Y=1;; grpo) Y=2;; *) Y=3;; esac; show $Y",
    "for": "for i in 1 2; do show step_$i; done",
    "while with arguments": "while [[ $# -gt 0 ]]; do case $1 in first) F=1;; esac; shift; done; show ${F:-0} $#",
    "function": 'f() { local x=$1; show "$x" "${@:1}"; }\nf a',
    "here-document": "cat > /dev/null <<END\nshow no\nEND\nshow yes",
    "set": "set -x\nset -euo pipefail\nshow done",
    "commands": "X=$(echo hi); Y=$(basename /a/b.sh .sh); Z=$(dirname /a/b.sh); show $X $Y $Z",
    "probe": "D=${D:-$(false && echo a || echo b)}; E=$(true && echo c || echo d); show $D $E",
    "several outputs": "show $(echo a; echo b)",
    "redirection": "show a 2>&1 b",
    "environment": "Q=1 W=2 show a",
    "several assignments": 'A=1 B="2 3"\nshow $A "$B"',
    "export": 'export P=/x; export Q="$P/y"; show $Q',
    "single quotes in double": """F="x"; show "data.files=['$F']" """,
    "single quotes in a default in double": """A=1; F="${F:-['$A/x','${A}']}"; show "$F" "${X:-'a b'}" "${A:+'$A'}" """
    """${Y:-'$A'} "$(echo ${Z:-'$A'})" """,
    "ansi": "show $'a\\tb'",
    "indirect": "A=B; B=deep; show ${!A}",
    "subshell": "X=1; (X=2; show $X); show $X",
    "arithmetic in a default": "A=3; show ${X:-$((1024 * 2))} ${B:-$((A / 2))x}",
    "variables with dashes": "V=1; A=$HOME/x-$V/y; B=(p=$HOME/x-$V/y-$V); show $A $HOME/x-$V/y ${B[@]}",
    "quotes that adjoin": "show 'a'\\\n'b' x=\"c\"'d'$HOME",
    "a document as a value": 'N=2\nX=$(cat <<EOF\na $N \\$N\nb\nEOF\n)\nshow "$X"',
    "a document as it stands": "X=$(cat <<'EOF'\na $N\nEOF\n)\nshow \"$X\"",
    "alternatives": "show data/{train,test}.parquet '{a,b}' {1..3} \"{a,b}\"",
    "a launch in backticks": "`show a b`",
    "home": "X=~/a; show ~/x a=~/y '~/z' $X x.y=~/w",
    "counting": "X=5; ((X++)); show $X; ((X += 2)); show $X; ((X = X * 2)); show $X",
    "translated": 'show $"c"',
    "counted loop": "S=0; for ((i = 1; i <= 3; i++)); do show $i; S=$((S + i)); done; show $S",
    "eval": 'X="show a \\"b c\\""; eval "$X"; f() { eval "show $1"; }; f x; show "$@"',
    "printf": 'printf -v X "%s-%02d" a 3; show $X $(printf "%.2f" 0.5) $(printf "%s,%s" a b) $(printf "%s " 1 2 3)',
    "lines": 'f() { if [[ $1 = /* ]]; then printf "%s\\n" "$1"; else printf "%s\\n" "/p/$1"; fi; }\n'
    'X="$(f a)"; Y=$(printf "a\\n"); Z=$(printf a; echo -n b; echo c; printf "d\\n\\n"); show "$X" "$Y" "$Z" $(f /b)/c',
    "echo": 'show "$(echo -e "a\\tb" "c\\\\d")" "$(echo -ne x; echo "a\\n")" "$(echo a -n)"',
    "escaped by printf": """X=$(printf '%q' "a b,c"); eval "show $X $(printf %q '') $(printf '%q' d/e-f)" """,
    "seq": "for i in $(seq 1 3); do show $i; done; show $(seq 0 2 6) $(seq 3 -1 1) $(seq -s, 1 3) $(seq -w 9 10)",
    "keys of an array": 'declare -A M=([a]=1); for k in "${!M[@]}"; do show $k ${M[$k]}; done; A=(x y); show ${!A[@]}',
    "more of a map": "declare -A M; M[x]=1; M+=([y]=2); show ${M[y]} ${#M[@]}",
    "let": 'let X=3+4; let "Y = X * 2"; show $X $Y',
    "joined": 'A=(a b); X=$(IFS=,; echo "${A[*]}"); show $X "${A[*]}" "[${A[*]}]" "$*" "a$*b"',
    "parts of arrays": 'A=(a b c d); show "${A[@]:1:2}" "${A[@]:2}" "${@:2}" "${@:1}" ${A[@]: -1} "${@:1:1}"',
    "array or default": 'A=(); show "${A[@]:-none}"',
    "read": 'IFS="," read -ra G <<< "0,1,2"; show ${#G[@]} ${G[1]}; read -r a b <<< "x y z"; show $a "$b"',
    "tr": "show $(echo AB/C | tr '/' '_' | tr '[:upper:]' '[:lower:]') $(echo a-b | tr -d '-')",
    "devices": 'export D=0,1; show n=$(echo $D | tr "," "\\n" | wc -l)',
    "sed": 'show $(echo a/b/a | sed "s/a/_/g") $(echo a/b | sed "s/\\//_/g") $(echo a:b | cut -d: -f2)',
    "expr": "show $(expr 3 \\* 4)",
    "patterns replaced": "X=abcab; show ${X//[ab]/_} ${X//[^a]/} ${X/b*/} ${X/b?/Z}",
    "counting down": "show {3..1}",
    "directories": "X=$(cd -- /usr/lib/.. >/dev/null 2>&1 && pwd); cd /usr; show $X $PWD $(cd lib; pwd) $(pwd) $PWD",
    "home directory": "cd; show $PWD; cd ~/..; show $PWD",
    "blank in the middle": "show a \\\n\\\n b",
}


@pytest.mark.parametrize("name", SPECIMENS)
def test_words_are_bash_s(name: str, tmp_path: Path) -> None:
    script = SPECIMENS[name]
    ours = [
        word
        for command in read_script(script, "run.sh", {}, {"HOME": "/root"}, ("first", "second")).commands
        if command.words[0] == "show"
        for word in command.words[1:]
    ]
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    shown = 'show() { [ $# -eq 0 ] || printf "%s\\0" "$@" >&3; }\n'
    file = tmp_path / "words"
    subprocess.run(
        [bash, "-c", f"exec 3>{file}\n{shown}{script}", "run.sh", "first", "second"],
        check=True,
        capture_output=True,
        env={"HOME": "/root", "PATH": "/usr/bin:/bin"},
    )
    assert ours == file.read_text().split("\0")[:-1]


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
    reading = read_script('show "$1" "$#" "$@"; shift; show $1', "run.sh", {"2": "b", "1": "a"}, {})
    assert [command.words[1:] for command in reading.commands] == [("a", "2", "a", "b"), ("b",)]
    (command,) = read_script('show "$2" "[$1]"', "run.sh", {"2": "b"}, {}).commands
    assert command.words[1:] == ("b", "[]")


def test_what_another_shell_in_a_terminal_runs(tmp_path: Path) -> None:
    script = 'L=1\ntmux new-session -d -s "$(date)" "export L=2 && show $L \\$L; exec bash"\n'
    script += 'tmux send-keys -t x "show a" Enter; tmux kill-session -t x; show $L'
    shown = [command.words[1:] for command in read_script(script, "run.sh", {}, {}).commands if "show" in command.words]
    assert shown == [("1", "2"), ("a",), ("1",)]


def test_what_is_unknown_in_a_list_is_named() -> None:
    assert unknowns(["a", {"b": unknown("X"), "c": [unknown("Y")]}, 1, None]) == ("X", "Y")


def test_what_is_unknown_keeps_its_name() -> None:
    (command,) = read_script("show $WHO/x $(date +%s) a${B}c", "run.sh", {}, {}).commands
    assert [readable(word) for word in command.words[1:]] == ["$WHO/x", "$(date +%s)", "a$Bc"]
    assert command.words[1] == f"{unknown('WHO')}/x"


def test_other_accelerators_are_looked_for_in_vain() -> None:
    script = "D=${D:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}\n"
    script += "case $D in gpu) X=1;; *) X=2;; esac"
    (command,) = read_script(f"{script}\nshow $D $X", "run.sh", {}, {}).commands
    assert command.words == ("show", "gpu", "1")


def test_what_a_command_prints_is_asked_for_by_its_variable() -> None:
    script = "GPUS=$(devices -L | wc -l)\nSIZE=$((4 * GPUS))\nshow $GPUS $SIZE $((SIZE + 1)) $((A + B)) x_$GPUS"
    (command,) = read_script(script, "run.sh", {}, {}).commands
    gpus = unknown("GPUS")
    assert command.words == ("show", gpus, gpus, unknown("SIZE"), unknown("$((A + B))"), f"x_{gpus}")
    (command,) = read_script(script, "run.sh", {"GPUS": "2", "A": "1", "B": "1"}, {}).commands
    assert command.words == ("show", "2", "8", "9", "2", "x_2")
    (command,) = read_script("N=8\nshow $((A * N * B)) $((A * N))", "run.sh", {}, {}).commands
    assert command.words == ("show", unknown("$((A * 8 * B))"), unknown("A"))
    (command,) = read_script('X="show $((A * B))"\neval $X', "run.sh", {}, {}).commands
    assert unknowns(command.words[1]) == ("$((A * B))",)
    assert readable(command.words[1]) == "$((A * B))"


def test_what_an_unknown_command_decides_stays_unknown() -> None:
    (command,) = read_script("show $(nvidia-smi && echo a || echo b)", "run.sh", {}, {}).commands
    assert [readable(word) for word in command.words[1:]] == ["$(nvidia-smi && echo a || echo b)"]


def test_given_variables_win() -> None:
    (command,) = read_script("X=$(hostname)\nY=${Z:-1}\nshow $X $Y", "run.sh", {"X": "here", "Z": "2"}, {}).commands
    assert command.words == ("show", "here", "2")


def test_an_unknown_condition_leaves_what_it_decides_unknown() -> None:
    reading = read_script('X=1 \nif [ "$WHO" = me ]; then X=2; Y=3; else Y=3; fi\nshow $X $Y', "run.sh", {}, {})
    assert reading.commands[-1].words == ("show", unknown("X"), "3")
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
        "['a.b=4', 'c.d=x']",
        "overrides = [\n    'a.b=4',\n    \"c.d=x\",\n]\n",
        'cmd=$(cat <<EOF\npython -m verl.trainer.main_ppo a.b=4 c.d=x\nEOF\n)\nbash -c "$cmd"\n',
        "`python -m verl.trainer.main_ppo a.b=4 c.d=x`\n",
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
    assert (found["a.b"], readable(found["data.train_files"])) == (1, "$FILES]")


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


def test_alternatives_that_multiply_end() -> None:
    with pytest.raises(UsageError, match="too large"):
        read_script("show " + "{a,b}" * 40, "run.sh", {}, {})


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


CONFIGS = {
    "mine.yaml": "defaults:\n  - ppo_trainer\n  - model: small\n  - optional reward@reward_model: strict\n"
    "  - override actor@actor_rollout_ref.actor: dp_actor\n  - override hydra/job_logging: none\n  - _self_\n"
    "data: {gen_batch_size: 7}\n",
    "model/small.yaml": "# @package actor_rollout_ref.model\npath: small\n",
    "model/big.yaml": "# of mine\n# @package actor_rollout_ref.model\npath: big\n",
    "reward/strict.yaml": "enable: false\n",
    "experiment/long.yaml": "# @package _global_\ntrainer: {total_epochs: 9}\n",
}


@pytest.mark.parametrize(
    ("words", "model", "more"),
    [
        ("", "small", ()),
        ("model=big", "big", ()),
        ("+experiment=long", "small", ({"trainer": {"total_epochs": 9}},)),
        ("model=gone", "small", ()),
    ],
)
def test_groups_of_a_config_of_ones_own(tmp_path: Path, words: str, model: str, more: tuple[Any, ...]) -> None:
    for name, text in CONFIGS.items():
        (tmp_path / "conf" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "conf" / name).write_text(text)
    script = tmp_path / "run.sh"
    script.write_text(f"python3 -m verl.trainer.main_ppo --config-path=conf --config-name=mine a.b=1 {words}\n")
    run = read_run(script, {}, {})
    chosen = {"actor_rollout_ref": {"model": {"path": model}}}
    own = {"data": {"gen_batch_size": 7}}
    assert run.overlay == (chosen, {"reward_model": {"enable": False}}, own, *more)
    assert [note.partition(" is not here")[0] for note in run.notes] == [
        "mine.yaml: actor@actor_rollout_ref.actor: dp_actor"
    ]
    assert [item.key for item in run.overrides] == ["a.b", *(["model"] if words == "model=gone" else [])]
    script.write_text("python3 -m verl.trainer.main_ppo --config-dir=conf +experiment=long a.b=1\n")
    assert read_run(script, {}, {}).overlay == ({"trainer": {"total_epochs": 9}},)


@pytest.mark.parametrize(("section", "is_verls"), [("actor_rollout_ref", True), ("generator", False)])
def test_the_config_of_a_program_says_whether_it_is_verls(tmp_path: Path, section: str, is_verls: bool) -> None:
    (tmp_path / "mine.yaml").write_text(f"{section}: {{n: 1}}\n")
    (tmp_path / "run.sh").write_text("python -m own.main_ppo --config-name mine env.name=x\n")
    if is_verls:
        assert read_run(tmp_path / "run.sh", {}, {}).program == "own.main_ppo"
    else:
        with pytest.raises(UsageError, match=r"own\.main_ppo is no trainer of verl's"):
            read_run(tmp_path / "run.sh", {}, {})


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
        (
            "uv run --extra fsdp -m skyrl.train.entrypoints.main_base trainer.epochs=2",
            "skyrl.train.entrypoints.main_base",
        ),
        ("uv run -m examples.dapo.main_dapo trainer.algorithm.kl=0 generator.n=2", "generator and trainer.algorithm"),
        (
            "python3 examples/run_grpo_math.py grpo.num_prompts_per_step=8 policy.model_name=x",
            "examples/run_grpo_math.py",
        ),
        ("python -m other.verl.main_ppo policy.lr=1 generator.n=2", "generator and policy"),
        (
            "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --a b --n 2 --m 4 --lr 1e-6 --bf16",
            "openrlhf.cli.train_ppo_ray",
        ),
        ("deepspeed --module cli.train --a b --n 2 --m 4 --lr 1e-6 --bf16", "cli.train"),
        ("python3 train.py --a b --n 2 --m 4 --lr 1e-6 --bf16", "train.py"),
        ("python -m pip install a==1", "starts no main_ppo"),
        ("echo python train.py a=1", "starts no main_ppo"),
    ],
)
def test_another_framework_is_refused_and_its_program_named(tmp_path: Path, launch: str, said: str) -> None:
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


@pytest.mark.parametrize("name", ["NODE_RANK", "MLP_ROLE_INDEX", "SLURM_PROCID"])
def test_what_starts_on_the_first_machine_only_is_read_as_there(tmp_path: Path, name: str) -> None:
    script = tmp_path / "run.sh"
    launch = "python3 -m verl.trainer.main_ppo data.seed=1"
    script.write_text(
        f'FIRST=0\nif [ "${{{name}:-}}" = "0" ]; then FIRST=1; fi\nif [ $FIRST = 1 ]; then\n{launch}\nfi\n'
    )
    run = read_run(script, {}, {})
    assert [item.key for item in run.overrides] == ["data.seed"]
    assert run.notes[-1] == f"read as on the first machine: {name}=0"
    with pytest.raises(UsageError, match="starts no main_ppo"):
        read_run(script, {name: "1"}, {})
    script.write_text(f"{launch} x.rank=$" + name)  # which starts anywhere
    assert not [note for note in read_run(script, {name: "3"}, {}).notes if "first machine" in note]
