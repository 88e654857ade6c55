"""What is read of a script is what bash makes of it, and what is not read is refused or not known.

Scripts that it reads or starts are named.
"""

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.placeholders import find_unknowns
from extractor.importers.runs.run_reader import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put

READ = r"""
A=("b c" "" d); show ${A[@]} ${A[*]} "${A[@]}"
---
A=1; B="2 3"; C="$A $B"; show "$C" "$A  $B" "${A} ${B}" "$A	 $B" $C
---
a=3; b=1; X=${Y:-$(((a + b) * 2))}; Z=${Q:-${W:-$(( (a + b) / (a - b) ))}}
show $X $Z ${V:-$((2 * (a+b)))} "${V:-$(((a)))}" ${X:-$(((1)))} ${V:-$((a / 2))x}
---
EMPTY=""; X="1 2"; A=("b c" d); show a$X ${X}b a"$X"b p"${A[@]}"q r${A[@]}s $X$X "$X"$X $(echo 1 2)x x=$EMPTY
---
A=x12; [ $A = "x*" ] || show 1; [ "x*" = "x*" ] && show 2; [ "$A" != "x*" ] && show 3; test "$A" = "x*" || show 4
---
N=1 M=$N; show $M; export Q="$M/y"; Q=1 W=2 show $Q; export A B=$N; show $B
---
N=-7; show $((N / 2)) $((7 / -2)) $((N - -1)); [ $N -lt 3 ] && show 1; [ ! $N = 7 ] && show 3
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
X=1; Y="$X/2"; show $X "$Y" ${X}y "${Y}" ${A:-y} ${B-z} "${D:-a b}" ${E:+no} ${X:+yes}
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
A=1; B=2; show "$(echo x) $(echo y)" "$(echo x) $A" "$A $(echo x)" "$A
$B" "$A \
  $B" "$A

 ${B}" "$@ $A" "$# $1" "$((1)) $((2))"
---
X=vllm; if [ "$X" = "vllm" ]; then Y=1; elif [ "$X" = "sglang" ]; then Y=2; else Y=3; fi; show $Y
---
show a
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
# What is not read: functions, `read`, patterns, braces, IFS, aliases, subshells, loops, `case`, `+=`, backticks...
UNREAD = r"""
X=grpo; case $X in ppo|gae) Y=1;; grpo) Y=2;; *) Y=3;; esac; show $Y
---
N=3; if (( N > 2 )); then Y=more; else Y=less; fi; show $Y; [ -z "$NOTHING" ] && Y=empty || Y=full; show $Y
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
readonly R=3; X+=2; show $R
---
C=(); C+=(1); show ${C[@]}
---
source lib.sh; show ${FROM_LIB}
---
show $((7 % 3)) $((2**10)) $((1 < 3)); show ${X:=w} $X
---
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
    "X=1\n\nfor ((i = 0; i < 2; i++)); do show $i; done": "run.sh:3: `for` is not read",
    "X=1\nwhile [ $X = 1 ]; do X=2; done": "run.sh:2: `while` is not read",
    "X=1\n(X=2; show $X)": "run.sh:2: brackets of their own, `( ... )`",
    "show $'a'": "run.sh:1: `$'` is not read",
    "X=1\nf() { X=2; }\nf": "run.sh:3: the function `f` is called, which is not read",
    "X=1\nshow $((X++))": "run.sh:2: `((X++))` changes a variable, and is not read",
    "eval 'show $i'": "run.sh:1: `eval show $i` is not read",
    "[[ a = a ]] && show 1": "run.sh:1: `[[` is not read",
    "case a in a) show;; esac": "run.sh:1: `case` is not read",
    "X=1\nX+=2": "run.sh:2: `X+=2` is not read",
    "show `show`": "run.sh:1: a backtick is not read: write $( ... )",
    "show a\nshow 'b\nshow c\n": "run.sh:2: what 'b begins here is not closed",
    "show a\nif true; then show b\n": "run.sh:3: `fi` is missing here",
}
HOSTILE = (
    "X=" + "x" * 1000 + "; " + "X=$X$X; " * 40,
    "f() { f; f; }; f",
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


def test_hostile_scripts_end() -> None:
    for text in HOSTILE:
        with contextlib.suppress(UsageError):
            read_script(text, "run.sh", {}, {})


HERE = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_the_folder_of_a_script_is_known(tmp_path: Path) -> None:
    script = tmp_path / "deep/run.sh"
    folders = f'{HERE}A=$(cd -- "$(dirname "$0")/.." >/dev/null 2>&1 && pwd)\necho $HERE $A "$(basename "$0" .sh)"'
    put(tmp_path, {"deep/run.sh": folders})
    found = read_script(folders, str(script), {}, {"PWD": "/"}).commands[-1].words[1:]
    printed = subprocess.run(["bash", str(script)], check=True, capture_output=True, text=True).stdout
    assert printed.split() == list(found)


def test_what_a_script_sources_is_named() -> None:
    reading = read_script("source ../lib.sh\n. $CONDA/x.sh\nshow ${A:-b}\n", "run.sh", {}, {})
    assert reading.commands[-1].words == ("show", "b")
    way = "is not read: set what it sets with --set VAR=VALUE"
    assert reading.notes == (f"line 1: ../lib.sh {way}", f"line 2: $CONDA/x.sh {way}")


def test_a_script_that_is_started_is_named(tmp_path: Path) -> None:
    for start, named in (
        ("OWN=1 env sh -x ./lib/train.sh", "./lib/train.sh"),
        ("sbatch <<EOF\npython -m verl.trainer.main_ppo\nEOF", "what `sbatch` runs"),
    ):
        put(tmp_path, {"run.sh": f"{HERE}{start}\n"})
        with pytest.raises(UsageError) as error:
            read_run(tmp_path / "run.sh", {}, {"HOME": "/root"})
        assert error.value.hint == f"line 2: {named} is not read: pass it instead if it launches the run"
