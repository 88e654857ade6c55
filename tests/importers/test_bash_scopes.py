"""Whose a variable is, and which way a script takes: bash says what each command gets."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.bash.state import There
from extractor.importers.runs.unknowns import unknown

SPECIMENS = {
    # A function's own variables.
    "local": 'N=2; f() { local N=99 M; M=1; show $N "$M"; }; f; show $N "${M-unset}"',
    "local of its caller": "N=8; f() { local N=99; g; show $N; }; g() { show $N; N=5; }; f; show $N",
    "local of itself": "N=8; f() { local N=$N-x; show $N; }; f; show $N",
    "local, declared": "N=1; M=2; f() { declare N=9; typeset -i M=8; declare -g G=7; }; f; show $N $M $G",
    "local without a value": 'N=1; f() { local N; show "[$N]" "${N-none}" "${#N}"; N=2; show $N; }; f; show $N',
    "local array": 'A=(1 2); f() { local A=(3); A+=(4); show "${A[@]}"; }; f; show "${A[@]}"',
    "local map": "f() { local -A M; M[a]=1; show ${M[a]}; }; f; show ${M[a]-unset}",
    "local in a recursion": "f() { local N=$1; (( N > 0 )) && f $((N - 1)); show $N; }; f 2; show ${N-unset}",
    "local in one way of a condition": (
        "N=1; f() { if [ $1 = a ]; then local N=2; fi; N=3; }; f a; show $N; f b; show $N"
    ),
    "local and exported": "N=1; f() { local -x N=2; bash -c 'exit'; }; f; show \"$N\"",
    "names that are put together": (
        'k=lr; declare "X_$k=1" "Y=a b"; f() { local "X_$k=2"; show $X_lr; }; f; show $X_lr "$Y"'
    ),
    "exports that are put together": 'k=lr; export "X_$k=1"; show $X_lr',
    "a name for another": (
        "f() { local -n out=$1; out=$2; }; BS=1; f BS 12; f N 7; declare -n r=BS; show $BS $N $r; r=5; show $BS"
    ),
    "a name for an array": 'A=(1 2); declare -n r=A; r+=(3); show "${r[@]}" ${r[1]} ${#r[@]}; unset r; show ${#A[@]}',
    "no longer exported": "readonly R=3; export R; export -n R; show $R; N=1 M=$N; show $M",
    "whole numbers": "declare -i M=1; M+=2; M+=M*2; show $M; f() { local -i N=3+4; show $N; }; f; N=3+4; show $N",
    "small and capital letters": "declare -l A=AbC; declare -u B=aBc; A+=D; show $A $B",
    # Variables before a command.
    "before a function": "N=1; f() { show ${N:-4} ${M:-5}; N=7; }; N=16 M=17 f; show $N ${M-unset}",
    "one before another": "N=1; N=5 M=$N eval 'show $M'; f() { show $M; }; N=6 M=$N-x f; show $N",
    "before a function, down to what it calls": "f() { g; }; g() { show ${N:-4}; }; N=16 f; f",
    "before eval": "N=1; N=16 eval 'show $N'; show $N",
    "before a function whose own it is": "f() { local N=5; show $N; }; N=16 f; show ${N-unset}",
    # Subshells.
    "a block in a pipeline": "N=2; { N=6; show $N; } | cat; show $N",
    "a function in a pipeline": "N=2; f() { N=3; show $N; }; f | cat; show $N",
    "the end of a pipeline": "N=2; echo x | { N=3; show $N; }; show $N",
    "jobs": "N=2; N=7 & wait; f() { N=8; }; f & wait; { N=9; } & wait; true && N=9 & wait; show $N",
    "a job that starts something": "N=2; show $N x & wait; show $N",
    "what is no job": "N=2; true &>/dev/null; N=3; true && N=4; show $N 2>&1; show $N",
    "an exit of a part": "N=2; { N=3; exit 0; } | cat; (exit 0); show $N",
    "items in a subshell": 'A=(1 2); (A[0]=9; show "${A[@]}"); X=$(A[1]=8; echo ${A[1]}); show "${A[@]}" $X',
    "a subshell in a function": "f() { (local N=1; show $N); N=2; }; f; show $N",
    "functions in a subshell": "f() { show a; }; (f() { show b; }; f); f; { f() { show c; }; } | cat; f",
    "a folder in a subshell": 'cd /tmp; (cd /usr); cd / | cat; show "$PWD" $(cd /usr; pwd) "$PWD"',
    "arguments in a subshell": 'set -- a b; (shift; show "$@"); { set -- c; } | cat; show "$@"',
    # Ways of a case.
    "into the next": (
        "for i in a b c d; do X=; case $i in a) X+=1;& b) X+=2;& c) X+=3;; *) X+=4;; esac; show $X; done"
    ),
    "on to the next that fits": (
        "for i in ab a b; do X=; case $i in a*) X+=1;;& z) X+=2;; *b) X+=3;;& *) X+=4;; esac; show $X; done"
    ),
    # What goes past who takes an output.
    "to the screen": 'log() { echo "$*" >&2; }; pick() { log hi; echo 5; }; show "$(pick)"',
    "to the screen, otherwise": 'f() { >&2 echo a; echo b 1>&2; { echo c; echo d; } >&2; echo e 2>&1; }; show "$(f)"',
    "to the screen, all of a function": (
        'log() { echo "$*"; } >&2; f() { log hi; echo 5 2>/dev/null; }; show "$(f)" "$(log x)"'
    ),
    "to nowhere": 'f() { echo a > /dev/null; uname &> /dev/null; uname >>/dev/null; echo b; }; show "$(f)"',
    # Items.
    "an item is unset": (
        "A=(a b c); unset 'A[1]'; show \"${A[@]}\" ${#A[@]} ${A[2]} ${A[1]-none} ${!A[@]}; A+=(d); show ${A[3]}"
    ),
    "the last one is": (
        'A=(a b c); unset A[2]; A+=(x); show "${A[@]}"; unset \'A[-1]\'; show "${A[@]}"; unset A; '
        'show "${A[@]}" ${A-none}'
    ),
    "one of a map is": (
        "declare -A M=([a]=1 [b]=2 [c]=3); unset 'M[a]'; k=b; unset \"M[$k]\"; show ${M[@]} ${!M[@]} ${#M[@]}"
    ),
    "items by a variable": (
        'for ((i = 0; i < 3; i++)); do A[i]=x$i; B[$i+1]=y; done; A[1]+=z; show "${A[@]}" ${!B[@]} ${A[i-1]} ${A[-3]}'
    ),
    "a function is unset": "f() { echo a; }; unset -f f; f=1; show $f",
    "unset": 'X=1; unset X; show "[$X]" "${X-none}" "${X:-empty}"; [ -z "$X" ] && show yes',
}


def made(script: str, there: There = lambda _path, _folder: None) -> list[str]:
    """Return the words that are shown, as they are read."""
    environment = {"HOME": "/root", "PWD": "/"}
    found = read_script(script, "run.sh", {}, environment, ("first", "second"), there).commands
    return [word for command in found if command.words[0] == "show" for word in (*command.words[1:], "|")]


def judged(script: str, folder: Path, cwd: Path = Path("/")) -> list[str]:
    """Return the words that bash shows."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    shown = 'show() { printf "%s\\0" "$@" "|" >&3; }\n'
    file = folder / "words"
    command = [bash, "-c", f"exec 3>{file}\n{shown}{script}", "run.sh", "first", "second"]
    environment = {"HOME": "/root", "PATH": "/usr/bin:/bin"}
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=cwd)
    return file.read_text().split("\0")[:-1]


@pytest.mark.parametrize("name", SPECIMENS)
def test_bash_says_the_same(name: str, tmp_path: Path) -> None:
    assert made(SPECIMENS[name]) == judged(SPECIMENS[name], tmp_path)


def test_a_case_that_fits_nothing_is_one_of_its_ways() -> None:
    assert made("X=1; case $WHO in a) X=2;; esac; show $X") == [unknown("X"), "|"]
    assert made("case $WHO in a) X=2;; *) X=2;; esac; show $X") == ["2", "|"]
