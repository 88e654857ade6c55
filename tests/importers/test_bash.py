"""What is read of a script is what bash makes of it, and what is not read is refused or not known.

Scripts that read others of their checkout are followed; those that they start are named.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from extractor.importers.runs.bash import ScriptReading, read_script
from extractor.importers.runs.placeholders import find_unknowns
from extractor.importers.runs.run_folders import RunFolders
from extractor.importers.runs.run_reader import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put

READ = r"""
X=grpo; case $X in ppo|gae) Y=1;; grpo) Y=2;; *) Y=3;; esac; show $Y
---
A=("b c" "" d); show ${A[@]} ${A[*]} "${A[@]}"; for i in ${A[@]}; do show "$i"; done
---
A=1; B="2 3"; C="$A $B"; show "$C" "$A  $B" "${A} ${B}" "$A	 $B" $C
---
a=3; b=1; X=${Y:-$(((a + b) * 2))}; Z=${Q:-${W:-$(( (a + b) / (a - b) ))}}
show $X $Z ${V:-$((2 * (a+b)))} "${V:-$(((a)))}" ${X:-$(((1)))} ${V:-$((a / 2))x}
---
EMPTY=""; X="1 2"; A=("b c" d); show a$X ${X}b a"$X"b p"${A[@]}"q r${A[@]}s $X$X "$X"$X $(echo 1 2)x x=$EMPTY
---
show a \
  `# lr` b=1 \
  `# it's "so"` \
  c `# x`d \
  e`#` `echo f`
show g `# h`
`# all of it`
show i
---
A=x12; [ $A = "x*" ] || show 1; [ "x*" = "x*" ] && show 2; [ "$A" != "x*" ] && show 3; test "$A" = "x*" || show 4
---
readonly R=3; export R; show $R; N=1 M=$N; show $M; export Q="$R/y"; Q=1 W=2 show $Q
---
N=-7; show $((N / 2)) $((7 / -2)) $((N % 3)) $((2**10)) $((2**0)) $((N < 3)) $((N == -7)) $((3 >= 3)) $((N - -1))
---
N=2; { N=6; show $N; } | cat; show $N; echo x | { N=3; show $N; }; show $N
---
N=2; show $N x & wait; show $N; true &>/dev/null; N=3; true && N=4; show $N 2>&1 b; show $N
---
X=1; unset X; show "[$X]" "${X-none}" "${X:-empty}"; [ -z "$X" ] && show yes
---
: show a
true show b
set -euo pipefail
show a b=c \
\
  d \
  e
---
X=1; Y="$X/2"; show $X "$Y" ${X}y "${Y}" ${A:-y} ${B-z} ${C:=w} $C "${D:-a b}" ${E:+no} ${C:+yes}
---
M=${MODEL:-${BASE:-/models}/qwen}; show "$M"
A="x ${A:-[\"http://x:1/y\",\"b c\"]} y ${B:-{\"a\": 1, \"b\": [1, 2]}} z"; show "$A"
A="x ${C:-[\"a\",$((1 + 2)),\"$(echo hi)\"]} ${D:-{\"x\": \"${Q:-7}\"}}"; show "$A ${E:-(a b)} ${F:-<|im_end|>}"
---
X=1; if [ $X = 1 ]; then show a; exit 0; fi
show b
---
T="['/a/x.parquet','/b/y.parquet']"; show data.train_files="$T" trainer.logger='["console","wandb"]' '+x.y={a: [c]}'
show 'a b' "c \"d\"" e\ f "g'h'" 'i"j"' trainer.logger=[\'console\',\'wandb\']
---
A=(
  x=1  # why
  # nothing
  "y=$HOME"
)
B=(); show "${A[@]}" "${B[@]}" end ${A[@]+"${A[@]}"} ${B[@]+"${B[@]}"} "${B[@]:-none}"
---
A=1; B=2; show "$(echo x) $(echo y)" "`echo x` $A" "$A `echo x`" "$A
$B" "$A \
  $B" "$A

 ${B}" "$@ $A" "$# $1" "$((1)) $((2))"
---
X=vllm; if [ "$X" = "vllm" ]; then Y=1; elif [ "$X" = "sglang" ]; then Y=2; else Y=3; fi; show $Y
---
N=3; if (( N > 2 )); then Y=more; else Y=less; fi; show $Y; [ -z "$NOTHING" ] && Y=empty || Y=full; show $Y
---
for i in 1 2; do show step_$i; done
cat > /dev/null <<END
show no
END
---
X=$(echo hi); Y=$(basename /a/b.sh .sh); Z=$(dirname /a/b.sh); show $X $Y $Z $(echo a; echo b)
---
V=1; A=$HOME/x-$V/y; B=(p=$HOME/x-$V/y-$V); show $A $HOME/x-$V/y ${B[@]} 'a'\
'b' x="c"'d'$HOME
---
X=~/a; show ~/x a=~/y '~/z' $X x.y=~/w
---
X=$(cd -- /usr/lib/.. >/dev/null 2>&1 && pwd); cd /usr; show $X $PWD $(cd lib; pwd) $(pwd) $PWD
cd; show $PWD; cd ~/..; show $PWD
"""
# What is not read: functions, `read`, maps, extended patterns, braces, IFS, aliases, subshells, most loops...
UNREAD = r"""
X=010; show $((X + 1))
---
show $((9223372036854775807 + 1))
---
show $((2 ** -1)) $((1 / 0))
---
for x in 1 2 3 4; do [ $x = 2 ] && continue; show $x; done
---
X=1; (X=2; show $X); show $X
---
set -- "x y" z; show $@ $*
---
shift; show "$@"; { set -- c; } | cat; show "$@"
---
X="show a \"b c\""; eval "$X"
---
A=(a b); X=$(IFS=,; echo "${A[*]}"); show $X "${A[*]}" "[${A[*]}]" "$*" "a$*b"
---
M=Qwen/Q-2.5/x; show ${M//\//_} "${M//\//_}" ${M/\//} "${M//Q/a\/b}" ${M//\/Q/-}
---
X=abcdef; I=2; show ${X:$I} ${X:I:2} ${X: -2} ${X:1:-1} "${X:(-3):2}" "[${X:9}]" "[${X: -9}]" ${X:$((I+1)):1}
---
N=4; show $((N * 2 + 1)) $(( (N + 3) / 2 )) $((N > 3 ? 8 : 9)) $((2**3)) $((N % 3))
---
P=/a/b.tar.gz; show ${P##*/} ${P%.gz} ${P%%.*} ${P#/} ${P/a/x} ${P//a/y} ${P:1:3} ${P^^}
---
a=(x "y z" w); a[5]=q; unset "a[0]"; a+=(t); show ${#a[@]} "${!a[*]}" "${a[*]: -1}"
---
X="1 2"; Q=q
show {a,b}c a{,b} {a,$Q}/c "{a,b}" '{a,b}' {a,"b c"}d {a,{b,c}}d {a} {} a{b}c {a,b}{c,d} "$X"{a,b} ${Q}{1..2} {,}x
---
for ((i = 0; i < 3; i++)); do A[i]=x$i; done; A[1]+=z; show "${A[@]}" ${A[i-1]} ${A[-3]}
---
printf -v X "%s-%02d" a 3; show $X $(printf "%.2f" 0.5) $(printf "%s,%s" a b) $(printf "%s " 1 2 3)
---
for i in $(seq 1 3); do show $i; done; show $(seq 0 2 6) $(seq 3 -1 1) $(seq -s, 1 3) $(seq -w 9 10)
---
export D=0,1; show n=$(echo $D | tr "," "\n" | wc -l)
---
f() { local N=99 M; M=1; show $N "$M"; }; N=2; f; show $N "${M-unset}"
---
pick() { echo 5; }; show "$(pick)"
---
while [[ $# -gt 0 ]]; do case $1 in first) F=1;; esac; shift; done; show ${F:-0} $#
"""
REFUSED = {
    "X=1\nselect x in a b; do show $x; done": "run.sh:2: `select` is not read",
    "X=1\n\nfor ((i = 0; i < 2; i++)); do show $i; done": "run.sh:3: `for ((...))` is not read",
    "X=1\nwhile [ $X = 1 ]; do X=2; done": "run.sh:2: `while` is not read",
    "X=1\n(X=2; show $X)": "run.sh:2: a subshell, `( ... )`, is not read",
    "show $'a'": "run.sh:1: `$'` is not read",
    "X=1\nf() { X=2; }\nf": "run.sh:3: the function `f` is called, which is not read",
    "X=1\n((X++))": "run.sh:2: `((X++))` changes a variable, and is not read",
    "for i in a b; do eval 'show $i'; done": "run.sh:1: `eval show $i` is not read",
    "show a\nshow 'b\nshow c\n": "run.sh:2: what 'b begins here is not closed",
    "show a\nif true; then show b\n": "run.sh:3: `fi` is missing here",
    "for i in " + "x " * 65 + "; do show; done": "run.sh:1: a loop of more than 64 rounds",
}
HOSTILE = (
    "X=" + "x" * 1000 + "; " + "X=$X$X; " * 40,
    "f() { f; f; }; X=$(f)",
    "source run.sh\nshow a",
    "(" * 500,
    "$(" * 500,
    "A=(a b); " + 'A=("${A[@]}" "${A[@]}"); ' * 40,
)


def made(script: str) -> list[str]:
    """Return the words that are shown, as they are read."""
    found = read_script(script, "run.sh", {}, {"HOME": "/root", "PWD": "/"}, ("first", "second")).commands
    return [word for command in found if command.words[0] == "show" for word in (*command.words[1:], "|")]


def judged(script: str, folder: Path) -> list[str]:
    """Return the words that bash shows."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    file = folder / "words"
    shown = f'exec 3>{file}\nshow() {{ printf "%s\\0" "$@" "|" >&3; }}\n'
    environment = {"HOME": "/root", "PATH": "/usr/bin:/bin"}
    command = [bash, "-c", f"{shown}{script}", "run.sh", "first", "second"]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd="/")
    return file.read_text().split("\0")[:-1]


def test_words_are_bashs(tmp_path: Path) -> None:
    for script in READ.split("\n---\n"):
        assert made(script) == judged(script, tmp_path), script


def test_nothing_is_silently_wrong() -> None:
    for script in UNREAD.split("\n---\n"):
        with contextlib.suppress(UsageError):
            assert any(map(find_unknowns, made(script))), script


def test_what_is_not_read_is_refused_with_its_line() -> None:
    for text, said in REFUSED.items():
        with pytest.raises(UsageError) as error:
            read_script(text, "run.sh", {}, {})
        assert (error.value.message[: len(said)], "--cfg job --resolve" in str(error.value.hint)) == (said, True)


def test_hostile_scripts_end(checkout: Path) -> None:
    for text in HOSTILE:
        with contextlib.suppress(UsageError):
            read(checkout / "run.sh", text)


HERE = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'
COMMON = f"""{HERE}
OF_COMMON=common
export EXPORTED="${{EXPORTED:-of common}}"
show "$(basename "${{BASH_SOURCE[0]}}")" "$(basename "$0")" "$@"
for letter in a b; do LETTERS+=$letter; done
"""
SPECIMENS = {
    "variables": f'{HERE}source "$HERE/lib/common.sh"\nshow $LETTERS $OF_COMMON',
    "one within another": f'{HERE}source "$HERE/lib/outer.sh"; show $OF_COMMON',
    "return": f'{HERE}source "$HERE/lib/early.sh"; show "$EARLY" "${{LATE:-unset}}"',
    "what is there": f'{HERE}[ -f "$HERE/lib/common.sh" ] && X=1; if [[ -d $HERE/lib ]]; then Y=2; fi; show $X $Y',
    "folders above": 'A=$(cd -- "$(dirname "$0")/.." && pwd); B=$(cd "$(dirname "$0")/lib/.." && pwd); show $A $B',
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        ".git/config": "",
        "lib/common.sh": COMMON,
        "lib/outer.sh": 'source "$(dirname "${BASH_SOURCE[0]}")/common.sh"\nOF_COMMON=outer\n',
        "lib/early.sh": "EARLY=1\nreturn 0\nLATE=1\n",
    }
    return put(tmp_path / "checkout", files)


def read(script: Path, text: str, arguments: tuple[str, ...] = ()) -> ScriptReading:
    script.write_text(text)
    places = RunFolders.of(script, None)
    environment = {"HOME": "/root", "PWD": str(script.parent)}
    return read_script(text, str(script), {}, environment, arguments, places.within)


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


def test_a_script_that_is_started_is_named(checkout: Path) -> None:
    for start, named in (
        ("OWN=1 env sh -x ./lib/train.sh", "./lib/train.sh"),
        ("sbatch <<EOF\npython -m verl.trainer.main_ppo\nEOF", "what `sbatch` runs"),
    ):
        put(checkout, {"run.sh": f"{HERE}{start}\n"})
        with pytest.raises(UsageError) as error:
            read_run(checkout / "run.sh", {}, {"HOME": "/root"})
        assert error.value.hint == f"line 2: {named} is not read: pass it instead if it launches the run"
