"""Scripts that read others of their checkout are followed; those that they start are named."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from extractor.importers.runs.bash import ScriptReading, read_script
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.reading import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put

HERE = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'
COMMON = f"""{HERE}
OF_COMMON=common
export EXPORTED="${{EXPORTED:-of common}}"
show "$(basename "${{BASH_SOURCE[0]}}")" "$(basename "$0")" "$@"
for letter in a b; do LETTERS+=$letter; done
"""
SPECIMENS = {
    "variables": f'{HERE}source "$HERE/lib/common.sh"\nshow $LETTERS $OF_COMMON',
    "a dot, and arguments": f'{HERE}. "$HERE/lib/given.sh" one two; show "$GIVEN" "$@"',
    "one within another": f'{HERE}source "$HERE/lib/outer.sh"; show $OF_COMMON',
    "return": f'{HERE}source "$HERE/lib/early.sh"; show "$EARLY" "${{LATE:-unset}}"',
    "what is there": f'{HERE}[ -f "$HERE/lib/common.sh" ] && X=1; if [[ -d $HERE/lib ]]; then Y=2; fi; show $X $Y',
    "a text for a shell": "X=1; export Y=2; Z=3 bash -c \"show $X \\$Y \\$Z\"; env A=1 bash -ec 'show $1 $Y' zero one",
    "folders above": 'A=$(cd -- "$(dirname "$0")/.." && pwd); B=$(cd "$(dirname "$0")/lib/.." && pwd); show $A $B',
    "what is no folder": f'{HERE}if [ -d "$HERE/lib/common.sh" ]; then X=1; else X=2; fi; show $X',
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        ".git/config": "",
        "lib/common.sh": COMMON,
        "lib/given.sh": 'GIVEN="$# $1"\n',
        "lib/outer.sh": 'source "$(dirname "${BASH_SOURCE[0]}")/common.sh"\nOF_COMMON=outer\n',
        "lib/early.sh": "EARLY=1\nreturn 0\nLATE=1\n",
        "lib/asks.sh": "\nif [ $(date +%u) = 1 ]; then B=1; fi\n",
        "lib/f.sh": "f\n",
    }
    return put(tmp_path / "checkout", files)


def read(script: Path, text: str, arguments: tuple[str, ...] = (), **given: str) -> ScriptReading:
    script.write_text(text)
    places = RunFolders.of(script, None)
    environment = {"HOME": "/root", "PWD": str(script.parent)}
    return read_script(text, str(script), given, environment, arguments, places.within)


def shown(reading: ScriptReading) -> list[tuple[str, ...]]:
    return [item.words[1:] for item in reading.commands if item.words[0] == "show"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_makes_the_same_of_it(checkout: Path, tmp_path: Path) -> None:
    script, out, show = checkout / "run.sh", tmp_path / "out", tmp_path / "bin" / "show"
    show.parent.mkdir()
    show.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" "|" >> {out}\n')
    show.chmod(0o755)
    environment = {"HOME": "/root", "PATH": f"{show.parent}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    for name, text in SPECIMENS.items():
        found = shown(read(script, text, ("first", "second")))
        out.write_text("")
        command = ["bash", str(script), "first", "second"]
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=checkout)
        assert found, name
        assert [word for words in found for word in (*words, "|")] == out.read_text().split("\0")[:-1], name


def test_what_lies_elsewhere_is_not_read(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.sh").write_text("A=outside\nshow $A\n")
    (checkout / "link.sh").symlink_to(tmp_path / "outside.sh")
    text = "source ../outside.sh\nsource link.sh\nsource ~/.bashrc\nsource $CONDA/x.sh\nshow ${A:-b}\n"
    reading = read(checkout / "run.sh", text)
    assert shown(reading) == [("b",)]
    assert [note.partition(":")[0] for note in reading.notes] == ["line 1", "line 2", "line 3", "line 4"]
    assert all("is not read: " in note for note in reading.notes)


def test_notes_variables_and_circles_of_other_scripts(checkout: Path) -> None:
    """What is not there may be where it runs; what the user sets counts; a note says in which script."""
    run = checkout / "run.sh"
    unknown = read(run, "if [ -f data.parquet ]; then A=1; else A=2; fi\nshow $A\n").notes
    assert any("a condition is unknown" in note for note in unknown)
    found = read(run, "source lib/common.sh\nshow $OF_COMMON\n", OF_COMMON="mine")
    assert shown(found)[-1] == ("mine",)
    (note,) = read(run, "source lib/asks.sh\n").notes
    assert note.startswith("asks.sh, line 2: a condition is unknown")
    for text in ("source run.sh\n", "f() { source lib/f.sh; }\nf\n"):
        with contextlib.suppress(UsageError):  # too large to be read
            assert len(read(run, text).commands) <= 1


def test_a_script_that_is_started_is_named(checkout: Path) -> None:
    for start, named in (
        ('bash lib/train.sh a.b=1 "$@"', "lib/train.sh"),
        ("OWN=1 env sh -x ./lib/train.sh", "./lib/train.sh"),
        ("exec lib/train.sh", "lib/train.sh"),
        ("ssh host bash <<EOF\npython -m verl.trainer.main_ppo\nEOF", "what `ssh` runs"),
        ("sbatch <<EOF\npython -m verl.trainer.main_ppo\nEOF", "what `sbatch` runs"),
    ):
        put(checkout, {"run.sh": f"{HERE}{start}\n"})
        with pytest.raises(UsageError) as error:
            read_run(checkout / "run.sh", {}, {"HOME": "/root"})
        assert error.value.hint == f"line 2: {named} is not read: pass it instead if it launches the run"
