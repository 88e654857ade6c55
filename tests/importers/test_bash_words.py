"""Expansions and patterns: bash says what words they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importers.test_bash_scopes import judged, made

SPECIMENS = {
    # Parts of a text in place of others.
    "a slash replaced": r'M=Qwen/Q-2.5/x; show ${M//\//_} "${M//\//_}" ${M/\//} "${M//Q/a\/b}" ${M//\/Q/-}',
    "a start, an end": r'P=/a/b/a; show ${P/#\/a/Z} ${P/%a/Z} ${P/#b/Z} "${P/#/x}" ${P/%/x} ${P/#*a/z} "${P/%[ab]/}"',
    "what is quoted is no pattern": (
        'P="a*b.c"; R="a*"; show "${P/"$R"/x}" ${P/"*"/y} "${P/\\*/z}" ${P/$R/w} "${P#"$R"}" ${P%%"."*} "${P%%\'.\'*}"'
    ),
    "what stands in their place": (
        'P=axb; Q="q r"; show "${P/x/$Q}" ${P/x/"$Q"} ${P/x/${Q}-} ${P/x/\\\\} "${P/a/$(echo y)}" "${P/x/\'y\'}"'
    ),
    "sets of characters": (
        "P=a1B_; show ${P//[[:digit:]]/} ${P//[^[:alpha:]]/-} ${P//[!a-z]/} ${P#[a-c]} ${P/[1]/x} ${P//[0-9_]/}"
    ),
    "what fits a pattern of extglob": (
        "shopt -s extglob\nP=xx12; show ${P##+(x)} ${P/@(1|2)/-} ${P%%*([0-9])} ${P//!(x)/y} ${P#?(x)} ${P##x*(x|1)}"
    ),
    "letters": 'Q=abcab; show ${Q^^[ab]} ${Q^b} ${Q^[a]} ${Q^^} ${Q^}; R=ABC; show ${R,,[AC]} ${R,} "${R,,}"',
    "places": (
        'X=abcdef; I=2; show ${X:$I} ${X:I:2} ${X: -2} ${X:1:-1} "${X:(-3):2}" "[${X:9}]" "[${X: -9}]" ${X:$((I+1)):1}'
    ),
    "by another name": r'A=B; B=x/y; C=(1 2); D="C[1]"; show ${!A} ${!A##*/} "${!A//\//_}" ${!D} "${!A:-d}"',
    "unset items": 'A=(1 2); show "[${A[5]}]" ${A[5]:-d} ${A[1]:+x} ${#A[5]} ${A[0]/1/9}',
    "side by side": 'f() { echo "$1"; }; B=b; show $(f q)$2 x=$(f q)$B$1 "$(f q)$2" ${B}$1$2 `f q`$1',
    "slashes of slashes": 'M=a/b//c; show ${M////_} "${M////}" ${M///} ${M/b/} ${M///c/d}',
    "characters by their numbers": "show $'a\\tb\\x41\\101\\n' $'it\\'s' $'\\e[0m' $'\\q'",
    "brackets in a default": (
        "a=3; b=1; X=${Y:-$(((a + b) * 2))}; Z=${Q:-${W:-$(( (a + b) / (a - b) ))}}; "
        'show $X $Z ${V:-$((2 * (a+b)))} "${V:-$(((a)))}" ${X:-$(((1)))}'
    ),
    # Of arrays.
    "arrays with holes": (
        'a=(x "y z" w); a[5]=q; unset "a[0]"; a+=(t); c=("${a[@]:1:2}"); '
        'show ${#a[@]} "${!a[*]}" "${c[@]}" "${a[*]: -1}" "${a[@]:3}"'
    ),
    "each item": (
        r'a=(x/1 y/2); show "${a[@]/#/data.}" ${a[@]/\//_} "${a[@]#*/}" "${a[@]%%/*}" ${a[@]^^} "${a[*]/x/z}"'
    ),
    "each argument": 'show "${@/s/S}" "${@%t}" "${*^}" ${@#f} "${@: -1}" "${@:1:1}" "${*:2}"',
    "the last ones": 'a=(1 2 3); show "${a[*]: -1}" "${a[@]: -2:1}" "${a[@]:1}" "${a[*]:0:2}" "${a[@]:(-1)}"',
    "quoted for a shell": (
        'A=(data.seed=3 "x y" "it\'s"); show "${A[@]@Q}" ${A[*]@Q} "${A[1]@Q}"; '
        'eval show "${A[@]@Q}"; X=a\\\'b; eval "show ${X@Q}"; bash -c "exit ${#A[@]}" || true'
    ),
    "lengths": "A=(abc d); X=12345; show ${#A} ${#A[@]} ${#A[1]} ${#X} ${#A[*]} ${#@} $#",
    # Splitting.
    "split by what IFS says": (
        'X=a:b::c; IFS=:; set -- $X; show $# "$@" "$*" "${*:2}"; for x in $X d:e; do show "$x"; done; '
        'A=($X); unset IFS; show "${A[@]}" $X'
    ),
    "split by a comma and blanks": (
        'IFS=", "; X=" a, b ,c  d, "; show $X $(echo 4,5,6); IFS=""; Y="p q"; show $Y "$*"; '
        "IFS=$' \\t\\n'; show $Y \"$*\""
    ),
    "items are split": (
        'A=("b c" "" d); show ${A[@]} ${A[*]} "${A[@]}"; set -- "x y" z; show $@ $*; for i in ${A[@]}; '
        'do show "$i"; done'
    ),
    "before and in a call": 'X=a,b; f() { local IFS=,; show $X "$*"; }; f p q; show $X; IFS=, f r s; show $X',
    "words of several parts are split": (
        'EMPTY=""; X="1 2"; A=("b c" d); show a$X ${X}b a"$X"b p"${A[@]}"q r${A[@]}s $X$X "$X"$X $(echo 1 2)x x=$EMPTY'
    ),
    "split by a colon between others": 'IFS=:; X=1:2 Y=1: Z=:1; show a$X${X}b a${Y}b a${Z}b$Z "$X"$Y x',
    # Braces.
    "ranges": (
        "show {2..8..2} {a..c} x{a..b} x{1..3}y {3..1} {01..03} {0..8..4} {c..a} {-1..1} {e..a..2} {1..1} "
        "{8..2..2} {a..1}"
    ),
    "choices": (
        'X="1 2"; Q=q; '
        'show {a,b}c a{,b} {a,$Q}/c "{a,b}" \'{a,b}\' {a,"b c"}d {a,{b,c}}d {a} {} a{b}c {a,b}{c,d} '
        '"$X"{a,b} ${Q}{1..2} {,}x'
    ),
    "braces of values": (
        "show '{a: 1, b: 2}' x={a} \\{a,b\\} \"{a..b}\" ${NONE:-{a}} y={c,d}; X={a,b}; show $X; "
        "A=(z{1..2} {p,q}); show ${A[@]}"
    ),
    "braces in loops": "for i in {0..8..4} {x,y}; do show $i; done; for c in {a..c}; do D=$c; done; show $D ~/{a,b}",
    # What the parser does not know.
    "comments between continued lines": (
        'show a \\\n  `# lr` b=1 \\\n  `# it\'s "so"` \\\n  c `# x`d \\\n  e`#` `echo f`\nshow g `# h`\n`# '
        "all of it`\nshow i"
    ),
    "what is no such comment": (
        "show '`# a`' \"\\`# b\\`\" # it's `# c`\ncat > /dev/null <<'E' <<F\n\"`# d`'\nE\n`# e`\nF\nX=$(echo "
        'f `# g` h; echo i)\nshow $X <<< "x" # \'\nshow `# a` b'
    ),
    "quotes in a pattern in quotes": (
        "M=a/b/c.d; "
        "show \"${M//'/'/-}\" \"x-${M//'.'/_}-${M/'b/'/}\" \"${M//a'/'b/-}\" ${M//'/'/-} 'it' \"it's "
        '${M//"/"/_}"'
    ),
    "quotes in quotes, a star": "M='a*b'; show \"${M//'*'/-}\" \"${M/#'a*'/}\" \"$(echo \"${M//'*'/ }\")\"",
    # Patterns of tests.
    "patterns of a case": (
        'shopt -s extglob\nfor x in xx12 12 a.b "*" q; do case $x in +(x)[0-9]*) show 1;; "*") show 2;; '
        "a\\.b) show 3;; @(p|q)) show 4;; !(z)) show 5;; esac; done"
    ),
    "a case by a variable": (
        'P="a*"; for x in abc "a*"; do case $x in "$P") show same;; $P) show like;; esac; done; '
        'case "" in "") show empty;; esac'
    ),
    "patterns of a test": (
        'shopt -s extglob\nA=x12; P="x*"; [[ $A == +(x)[0-9]* ]] && show 1; [[ $A == "x*" ]] || show 2; '
        '[[ $A = $P ]] && show 3; [[ $A != "$P" ]] && show 4; [[ $A == *[[:digit:]] && /a = /* ]] && show 5'
    ),
    "no patterns of a test": (
        'A=x12; [ $A = "x*" ] || show 1; [ "x*" = "x*" ] && show 2; [ "$A" != "x*" ] && show 3; '
        'test "$A" = "x*" || show 4'
    ),
    "before and behind": (
        "[[ 10 < 9 ]] && show 1; [[ b > a ]] && show 2; [[ a > b ]] || show 3; [ 2 -lt 10 ] && show 4"
    ),
    "what binds more": (
        "A=1; B=2; N=; for C in 1 2; do [[ $A = 1 && $B = $C ]] && show 1; "
        '[ "$A" = 1 -a "$B" = $C ] && show 2; [[ $A = 2 || $B = $C && $A != 1 ]] || show 3; '
        '[[ ! ( $A == 1 || -z $B ) || $C -gt 1 ]] && show 4; [ "$N" ] || show 5; [ ! "$N" ] && show 6; '
        '[ "$A" = 1 -o "$B" = 1 -a ! "$C" = 1 ] && show 7; [[ $A =~ ^1$ && $B = ${C}* ]] && show 8; done'
    ),
    # Arithmetic.
    "other bases": "N=010; show $((010 + 1)) $((0x1F)) $((2#101)) $((N)) $((16#ff)) $((10#08 + 1)) $((0)) $((100))",
    "other bases in tests": (
        "N=010; [ $N -eq 10 ] && show 1; [[ $N -eq 8 ]] && show 2; (( N == 8 )) && show 3; "
        "show $(expr $N + 1) $(printf %d $N)"
    ),
    "changes": (
        "N=1; show $((N++)) $((++N)) $N $((N += 2)) $N $((M = N * 2)) $M; ((A = 1, B = A + 1)); show $A $B; "
        "(( A++ )) && show yes; ((--A)); show $A; let N-=1 M=3; show $N $M; ((C=0)); ((C++)) || show was-0"
    ),
    "steps among others": "A=3; K=$((A + 1)); show $K $(( A - -1 )) $((1 - -K)) $((A++)) $A $((2 + +A))",
    "items in arithmetic": "A=(3 4); i=1; show $((A)) $((${#A[@]} * 2)) $((${A[i]} + 1)) ${A[$((i - 1))]}",
}


@pytest.mark.parametrize("name", SPECIMENS)
def test_bash_makes_the_same_words(name: str, tmp_path: Path) -> None:
    assert made(SPECIMENS[name]) == judged(SPECIMENS[name], tmp_path)
