"""What `read` and `mapfile` take, aliases, and loops: bash says what each command gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.reading import read_run
from extractor.importers.runs.unknowns import unknown
from extractor.values.errors import UsageError
from tests.importers.test_bash_scopes import judged, made

SPECIMENS = {
    # read
    "a here-string": (
        'IFS=, read -ra A <<< "3,5,7"; read -r X Y <<< " a  b c "; IFS=: read P Q <<< 8:9:10; '
        'show "${A[@]}" "$X" "$Y" $P $Q'
    ),
    "fields": (
        'IFS== read -r k v <<< "a=b=c"; IFS=: read x y <<< "p:q:"; IFS=: read z <<< "p:"; '
        'read e f <<< "only"; show $k $v $x $y $z "$e" "[$f]"; read <<< " r s "; show "$REPLY"'
    ),
    "backslashes": "read -r A <<< 'a\\b'; read B <<< 'a\\b'; read C <<< $'a\\\\\\nb'; show \"$A\" \"$B\" \"$C\"",
    "a document, whole": (
        "N=4\nread -r -d '' OPTS <<EOT || true\na.n=$N\nb.size=$((N*8))\nEOT\nshow $OPTS; show \"$OPTS\""
    ),
    "lines of a document": 'while read -r a b; do show "$a" "$b"; done <<EOT\n1 2 3\n\n 4\nEOT\nshow "[$a]"',
    "the last line without an end": (
        "printf 'a\\nb' > f; while read x; do show $x; done < f; while read x || [ -n \"$x\" ]; do show $x; done < f"
    ),
    "a file of settings": (
        "O=()\nwhile IFS='=' read -r k v; "
        'do\n  [[ -z $k || $k == \\#* ]] && continue\n  O+=("$k=$v")\ndone < conf.ini\nshow "${O[@]}"'
    ),
    "one line after another": (
        '{ read a; read b; read c || show end; show $a $b "[$c]"; } <<< $\'1\\n2\'; read d e < conf.ini; show "$d"'
    ),
    "what a command prints": (
        'read a b < <(echo 1 2); while read x; do L=$x; show $x; done < <(printf "%s\\n" p "q r"); '
        'show "$L"; read u < <(cat conf.ini | head -n 1) || true'
    ),
    "from a pipeline": (
        "N=1; echo a b | while read x y; do N=2; show $x $y; done; show $N; "
        'printf "%s\\n" c d | tr c e | { read x; show $x; }; cat conf.ini | while read l; do show "$l"; done'
    ),
    "a document in a pipeline": "cat <<EOT | while read -r x; do show $x; done\na\nb\nEOT\nshow c",
    "a function that reads": "f() { local x; while read x; do show $x; done; }; f <<< $'a\\nb'; echo c | f",
    # mapfile
    "lines": (
        "mapfile -t A <<< $'a=1\\nb=2\\nc d'; readarray -t B < <(printf \"%s\\n\" x=1 y=2); "
        'mapfile -t F < conf.ini; show "${A[@]}" "${B[@]}" "${#F[@]}" "${F[@]}"'
    ),
    "lines, with their ends": (
        "mapfile A <<< $'a\\nb'; mapfile -t -n 1 -s 1 B <<< $'p\\nq\\nr'; mapfile -td, C <<< 'a,b'; "
        'mapfile <<< x; show "${A[@]}" "${B[@]}" "${C[@]}" "$MAPFILE"'
    ),
    # Loops and functions.
    "break and continue": (
        "for x in 1 2 3 4; do [ $x = 2 ] && continue; [ $x = 4 ] && break; show $x; done; show $x; "
        "for x in a b; do for y in 1 2; do [ $y = 2 ] && continue 2; [ $x = b ] && break 2; show $x$y; done; "
        "show no; done"
    ),
    "break and continue of others": (
        "i=0; while (( i < 5 )); do i=$((i + 1)); [ $i = 2 ] && continue; if [ $i = 4 ]; then break; fi; "
        "show $i; done; for ((j = 0; j < 4; j++)); do (( j == 1 )) && continue; (( j == 3 )) && break; "
        "show j$j; done"
    ),
    "return in a loop": "f() { for x in 1 2; do show $x; return; done; show no; }; f; show after",
    "what a function returns": (
        "f() { return 1; }; g() { return 0; }; f || show failed; f && show no; g && show well; if f; "
        "then show no; else show else; fi"
    ),
    "a loop that counts two": (
        "for ((i=0, j=5; i<3; i++, j--)); do show $i$j; done; for (( ; ; )); do break; done; show $i"
    ),
    "exit in a function": "f() { for x in 1 2; do show $x; exit 0; done; }; (f; show no); f; show no",
    # Aliases.
    "an alias": (
        "shopt -s expand_aliases\nalias v='show x' w=\"v y\" sudo='sudo '\nv a \"b c\" && w d\nX=1 v "
        "z\nunalias v\nv a\n\\w b\n'w' c\nw d\ntrue"
    ),
    "an alias that is none": "alias v='show x'\nv a\nshow b",
    "an alias of itself": "shopt -s expand_aliases\nalias show='show z'\nshow a\nalias p='N=5; show'\np $N\nshow $N",
    "an alias in a function": (
        "shopt -s expand_aliases\nalias v='show x'\nf() { v \"$@\"; }\nf a\nif true; then v b | cat; fi"
    ),
    # What does nothing.
    "no commands": ": show a\ntrue show b\nshow c",
}


@pytest.mark.parametrize("name", SPECIMENS)
def test_bash_takes_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / "conf.ini").write_text("# settings\na.b=1\n\nc.d=x y\n")
    script = SPECIMENS[name]
    there = {"conf.ini": tmp_path / "conf.ini"}.get
    assert made(script, lambda path, _folder: there(path)) == judged(script, tmp_path, tmp_path)


def test_an_item_of_words_that_are_not_known_is_not_known() -> None:
    assert made("A=($(hostname) b); show ${A[0]} ${A[5]}") == [unknown("$(hostname)")] * 2 + ["|"]


@pytest.mark.parametrize(
    "script", ["mapfile -t A < missing", "readarray -t A < <(curl x)", "read A < missing", "curl x | read B; read A"]
)
def test_what_is_not_there_to_be_read_is_not_known(script: str) -> None:
    assert made(f'{script}; show "${{A[@]}}"') == [unknown("A"), "|"]


@pytest.mark.parametrize(
    "script", ["alias v='train a=1'", ": train a=1", "train --help", "python3 -m train --help | cat"]
)
def test_what_is_no_launch(script: str) -> None:
    assert not [item for item in read_script(script, "run.sh", {}, {}).commands if "train" in " ".join(item.words)]


@pytest.mark.parametrize("encoding", ["gbk", "latin-1"])
def test_comments_may_be_in_another_encoding(tmp_path: Path, encoding: str) -> None:
    comment = "训练" if encoding == "gbk" else "é"
    script = tmp_path / "run.sh"
    text = f"# {comment}\nsource rest.sh  # {comment}\npython3 -m verl.trainer.main_ppo data.seed=$SEED\n"
    script.write_bytes(text.encode(encoding))
    (tmp_path / "rest.sh").write_bytes(f"SEED=7  # {comment}\n".encode(encoding))
    assert {item.key: item.value for item in read_run(script, {}, {}).overrides} == {"data.seed": 7}
    script.write_bytes(f"N={comment}\n{text}".encode(encoding))
    with pytest.raises(UsageError, match="not UTF-8"):
        read_run(script, {}, {})
