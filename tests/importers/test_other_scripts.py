"""Scripts that read or start others of their checkout: bash says what the last of them gets."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.bash.script import ScriptReading
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.reading import read_run
from extractor.values.errors import UsageError

HERE = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'
COMMON = f"""{HERE}
OF_COMMON=common
export EXPORTED="${{EXPORTED:-of common}}"
started() {{
  local name="$1"
  shift
  show "$name" "$OF_COMMON" "$(basename "${{BASH_SOURCE[0]}}")" "$(basename "$0")" "$@"
}}
for letter in a b; do LETTERS+=$letter; done
"""
INNER = 'show inner "${EXPORTED:-unset}" "${OWN:-unset}" "$(basename "$0")" "$(basename "$(pwd)")" "$#" "$@"\n'
SPECIMENS = {
    "functions and variables": f'{HERE}source "$HERE/lib/common.sh"\nstarted first x "y z"; show $LETTERS $OF_COMMON',
    "a dot, and arguments": f'{HERE}. "$HERE/lib/given.sh" one two; show "$GIVEN" "$@"',
    "one within another": f'{HERE}source "$HERE/lib/outer.sh"; started second',
    "return": f'{HERE}source "$HERE/lib/early.sh"; show "$EARLY" "${{LATE:-unset}}"',
    "started": f'{HERE}OWN=1; EXPORTED=mine bash "$HERE/lib/inner.sh" a "b c"; show after "${{EXPORTED:-unset}}"',
    "an export": f'{HERE}export EXPORTED=all OWN=2; cd "$HERE/lib"; bash -x ./inner.sh; show "$(basename "$(pwd)")"',
    "nothing comes back": f'{HERE}bash "$HERE/lib/common.sh"; show "${{OF_COMMON:-unset}}"',
    "behind another command": f'{HERE}env sh "$HERE/lib/inner.sh" x',
    "by its name": f'{HERE}exec "$HERE/lib/inner.sh" x y',
    "a wrapper of a wrapper": f'{HERE}export EXPORTED=w; bash "$HERE/lib/wrapper.sh" "$@"',
    "what is there": f'{HERE}[ -f "$HERE/lib/common.sh" ] && X=1; if [[ -d $HERE/lib ]]; then Y=2; fi; show $X $Y',
    "a document for a shell": 'X=1; Y=2; export Y; bash -s -- a "b c" <<EOF\nshow $X \\$Y "\\$2"\nX=\\$1\nEOF\nshow $X',
    "one for a queue": "X=1; sbatch --time=1 <<EOF\n#!/bin/bash\n#SBATCH --x\nshow $X\nexit 1\nEOF\nshow after",
    "one for another machine": "ssh host bash <<'EOF'\nfor X in 1 2; do show $X; done\nEOF\n",
    "a text for a shell": 'X=1; export Y=2; Z=3 bash -c "show $X \\$Y \\$Z"; bash -ec \'show "$1" $Y\' zero one',
    "one behind others": "srun -N 1 env X=1 bash -c 'cd lib && bash inner.sh'",
    "what is no folder": f'{HERE}if [ -d "$HERE/lib/common.sh" ]; then X=1; else X=2; fi; show $X',
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / ".git").mkdir(parents=True)
    files = {
        "lib/common.sh": COMMON,
        "lib/given.sh": 'GIVEN="$# $1"\n',
        "lib/outer.sh": 'source "$(dirname "${BASH_SOURCE[0]}")/common.sh"\nOF_COMMON=outer\n',
        "lib/early.sh": "EARLY=1\nreturn 0\nLATE=1\n",
        "lib/inner.sh": INNER,
        "lib/words.txt": "one  two\n'three'\n\n",
        "lib/wrapper.sh": 'D=$(dirname "$0")\nbash "$D/inner.sh" wrapped "$@"\n',
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    return root


def read(script: Path, text: str, arguments: tuple[str, ...] = (), **given: str) -> ScriptReading:
    script.write_text(text)
    places = RunFolders.of(script, None)
    environment = {"HOME": "/root", "PWD": str(script.parent)}
    return read_script(text, str(script), given, environment, arguments, places.within)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
@pytest.mark.parametrize("name", SPECIMENS)
def test_bash_makes_the_same_of_it(name: str, checkout: Path, tmp_path: Path) -> None:
    script, out, shown = checkout / "run.sh", tmp_path / "out", tmp_path / "bin" / "show"
    found = read(script, SPECIMENS[name], ("first", "second")).commands
    shown.parent.mkdir()
    shown.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" "|" >> {out}\n')
    shown.chmod(0o755)
    for name, text in (("sbatch", "exec bash"), ("ssh", 'shift; exec "$@"'), ("srun", 'shift 2; exec "$@"')):
        (shown.parent / name).write_text(f"#!/bin/bash\n{text}\n")
        (shown.parent / name).chmod(0o755)
    environment = {"HOME": "/root", "PATH": f"{shown.parent}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    command = ["bash", str(script), "first", "second"]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=checkout)
    ours = [word for item in found if item.words[0] == "show" for word in (*item.words[1:], "|")]
    assert ours == out.read_text().split("\0")[:-1]
    assert ours


def test_what_lies_elsewhere_is_not_read(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.sh").write_text("A=outside\nshow $A\n")
    (checkout / "link.sh").symlink_to(tmp_path / "outside.sh")
    text = (
        "source ../outside.sh\nsource link.sh\nbash ../outside.sh\nsource ~/.bashrc\nsource $CONDA/x.sh\nshow ${A:-b}\n"
    )
    reading = read(checkout / "run.sh", text)
    assert [item.words for item in reading.commands if item.words[0] == "show"] == [("show", "b")]
    assert [note.partition(":")[0] for note in reading.notes] == ["line 1", "line 2", "line 3", "line 4", "line 5"]
    assert all("is not read: " in note for note in reading.notes)


def test_what_is_not_there_may_be_where_it_runs(checkout: Path) -> None:
    text = "if [ -f data.parquet ]; then A=1; else A=2; fi\nshow $A\n"
    assert any("a condition is unknown" in note for note in read(checkout / "run.sh", text).notes)


def test_what_the_user_sets_counts_in_other_scripts(checkout: Path) -> None:
    text = "source lib/common.sh\nbash lib/inner.sh\nshow $OF_COMMON\n"
    found = read(checkout / "run.sh", text, OF_COMMON="mine", EXPORTED="too").commands
    assert [item.words[1:3] for item in found if item.words[0] == "show"] == [("inner", "too"), ("mine",)]


def test_a_note_says_in_which_script(checkout: Path) -> None:
    (checkout / "lib/asks.sh").write_text("\nif [ $(date +%u) = 1 ]; then B=1; fi\n")
    (note,) = read(checkout / "run.sh", "source lib/asks.sh\n").notes
    assert note.startswith("asks.sh, line 2: a condition is unknown")


@pytest.mark.parametrize("text", ["source run.sh\n", "bash run.sh\nbash run.sh\n", "f() { source lib/f.sh; }\nf\n"])
def test_scripts_that_read_themselves_end(text: str, checkout: Path) -> None:
    (checkout / "lib/f.sh").write_text("f\n")
    with contextlib.suppress(UsageError):  # too large to be read
        assert len(read(checkout / "run.sh", text).commands) <= 1


def test_a_script_is_found_where_its_author_had_the_checkout(checkout: Path) -> None:
    text = "cd /home/me/checkout/lib\nbash ./inner.sh a\nbash /data/me/checkout/lib/inner.sh b\n"
    found = read(checkout / "run.sh", text).commands
    assert [item.words[-1] for item in found if item.words[0] == "show"] == ["a", "b"]


def test_a_run_behind_a_wrapper(checkout: Path) -> None:
    (checkout / "lib/train.sh").write_text(
        "python -m verl.trainer.main_ppo \\\n  algorithm.adv_estimator=${ESTIMATOR:-gae} \\\n"
        '  data.train_batch_size=$SIZE "$@"\n'
    )
    script = checkout / "examples" / "run.sh"
    script.parent.mkdir()
    script.write_text(f'{HERE}export ESTIMATOR=grpo SIZE=8\nbash "$HERE/../lib/train.sh" trainer.save_freq=5 "$@"\n')
    run = read_run(script, {}, {"HOME": "/root"})
    assert {item.key: item.value for item in run.overrides} == {
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": 8,
        "trainer.save_freq": 5,
    }
