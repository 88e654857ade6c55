"""The parts that read bash, each alone; test_script.py has them together, with bash as the judge."""

from __future__ import annotations

import subprocess
import time

import pytest
from tree_sitter import Node

from extractor.importers.runs.bash import patterns, read_script
from extractor.importers.runs.bash.choices import choices
from extractor.importers.runs.bash.commands import is_probe, printed
from extractor.importers.runs.bash.conditions import Conditions
from extractor.importers.runs.bash.expansion import Expansion
from extractor.importers.runs.bash.parameters import Parameters
from extractor.importers.runs.bash.script import Interpreter
from extractor.importers.runs.bash.state import State, scalar
from extractor.importers.runs.bash.syntax import errors, mended, parse, text_of
from extractor.importers.runs.unknowns import unknown
from extractor.values import limits
from extractor.values.errors import UsageError


def state(text: str = "", **variables: str) -> State:
    return State(text.encode(), "run.sh", {"GIVEN": "1"}, variables, ("first",), lambda _path, _folder: None)


def word(text: str) -> Node:
    """Return the second word of a command."""
    return parse(text.encode(), "run.sh").children[0].children[1]


def test_words_that_a_script_compares_a_variable_with() -> None:
    text = """
: "${KIND:?'linear or cosine'}"
if [[ "${KIND}" != "linear" && $KIND != cosine ]]; then exit 1; fi
[ "$KIND2" = other ] || [ ${SIZE,,} == "7b" ]
case "$SIZE" in
  1b|"3b") n=1 ;;
  (7b) n=2 ;;
  *) echo "Unknown size)" ;;
esac
"""
    assert choices(text, "KIND") == ["linear", "cosine"]
    assert choices(text, "SIZE") == ["7b", "1b", "3b"]
    assert choices(text, "MISSING") == []


@pytest.mark.parametrize("text", [",$A/x/y,", "a/b$A", "$A/b.c/d", "$A", "x-$A-y/", "[$A,"])
@pytest.mark.parametrize(
    "operation",
    ["#,", "%,", "##*/", "#*/", "%/*", "%%/*", "%.*", "%%.*", "#a", "##a/", "%/y,", "%/", "#\\[", "##x*", "%*y"],
)
def test_a_known_end_of_a_text_is_trimmed_as_it_would_be(text: str, operation: str) -> None:
    script = f'T="{text}"\nshow "${{T{operation}}}"\n'
    (found,) = [item.words[1] for item in read_script(script, "x", {}, {}).commands]
    whole = text.replace("$A", unknown("A"))
    for value in ("q", "one-two", "e.f", "b/c", ",/"):
        (known,) = [item.words[1] for item in read_script(script, "x", {"A": value}, {}).commands]
        assert found.replace(unknown("A"), value) == known or found == whole


def test_state_keeps_what_the_user_sets() -> None:
    known = state(HOME="/root")
    known.put("GIVEN", "2")
    known.put("A", ["x", "y"])
    assert (known.variable("GIVEN"), known.variable("A"), known.variable("1"), known.variable("2")) == (
        "1",
        "x",
        "first",
        "",
    )
    assert known.variable("WHO") == unknown("WHO")
    assert known.environment() == {"HOME": "/root", "GIVEN": "1"}
    assert scalar({"k": "v"}) == ""


def test_state_counts_what_is_read() -> None:
    with pytest.raises(UsageError, match="characters"):
        state().spend(limits.MAX_EXPANDED + 1)
    with pytest.raises(UsageError, match="grows beyond"):
        state().put("A", "x" * (limits.MAX_WORD + 1))
    with pytest.raises(UsageError, match="words"):
        state().counted(["x"] * (limits.MAX_WORDS + 1))


def test_numbers_follow_variables() -> None:
    known = state(N="M + 1", M="2", TEXT="x y")
    assert (known.number("N"), known.number("TEXT"), known.number("NONE")) == ("3", None, None)


def test_a_tree_knows_its_texts_and_errors() -> None:
    root = parse(b"show a 'b c'", "run.sh")
    assert text_of(root) == "show a 'b c'"
    assert not list(errors(root))
    assert list(errors(parse(b"show $(", "run.sh")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A:-b}", "b"),
        ("${P##*/}", "c.gz"),
        ("${P%.gz}", "/a/c"),
        ("${#P}", "7"),
        ("${P/a/x}", "/x/c.gz"),
        ("${A?}", unknown("A")),
    ],
)
def test_parameters(text: str, expected: str) -> None:
    source = f"show {text}"
    known = state(source, P="/a/c.gz")
    assert Parameters(known, text_of, lambda inner, _: inner).expanded(word(source)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [('"$A b"', ["x y b"]), ("$A", ["x", "y"]), ("'$A'", ["$A"]), ("$((1 + 2))", ["3"]), ("{1..3}", ["1", "2", "3"])],
)
def test_expansion(text: str, expected: list[str]) -> None:
    source = f"show {text}"
    assert Expansion(state(source, A="x y"), lambda nodes: None).words(word(source)) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["1", "-lt", "2"], True),
        (["-z", ""], True),
        (["-n", unknown("X")], False),
        (["!", "a", "=", "b"], True),
        (["abc", "==", "a*"], False),
        ([unknown("$(f)"), "=", "b"], None),
        (["a", "=~", "(a+)+$"], None),
    ],
)
def test_conditions(words: list[str], expected: bool | None) -> None:
    known = state()
    assert Conditions(known, Expansion(known, lambda nodes: None)).test(words) is expected


def test_outputs_of_harmless_commands() -> None:
    known = state(PWD="/here")
    assert printed(["basename", "/a/b.sh", ".sh"], known) == "b\n"
    assert printed(["pwd"], known) == "/here\n"
    assert printed(["printf", "%s", "a"], known) == printed(["echo", "-n", "a"], known) == "a"
    assert printed(["hostname"], known) is None
    assert printed(["echo", unknown("X")], known) is None
    assert is_probe(["python3", "-c", "import torch_npu"])


@pytest.mark.parametrize("between", ["A=hello\n", "", "# a comment\nA=1\n\nexport A=hello\n"])
def test_a_pipeline_ends_with_its_line(between: str) -> None:
    """The parser takes what follows for arguments of `xargs`, where a later line has `2>&1 |`."""
    text = f"ps aux | grep ray | xargs kill -9\n{between}run \\\n  --a=$A 2>&1 | tee x.log\n"
    mine = mended(text.encode(), "run.sh")
    kinds = [node.type for node in parse(mine, "run.sh").named_children if node.type != "comment"]
    assert kinds[0] == kinds[-1] == "pipeline"
    assert len(kinds) == 2 + between.count("A=")
    assert mended(mine, "run.sh") == mine


def test_the_interpreter_goes_both_ways_of_a_doubt() -> None:
    source = "if [ $WHO = me ]; then A=1; B=2; else B=2; fi"
    known = state(source)
    assert Interpreter(known).run(parse(source.encode(), "run.sh").children) is None
    assert (known.variable("A"), known.variable("B"), known.doubts) == (unknown("A"), "2", 1)


@pytest.mark.parametrize("long", [5_000, 100_000])
@pytest.mark.parametrize(
    "pattern", ["*a*a*a*a*a*a*a*b", "*[a-c]*[a-c]*[a-c]*b", "+(a|aa)b", "*!(*!(*!(*b)))", "?", "[!b]*b"]
)
def test_a_pattern_takes_no_time_to_speak_of(pattern: str, long: int) -> None:
    """Whatever it is compared with: what would take long is not known, and never a wrong answer."""
    text, begin = "a" * long, time.monotonic()
    is_fit = patterns.fits(text, pattern)
    trims = [patterns.trimmed(text, pattern, sign) for sign in ("#", "##", "%", "%%")]
    replaced = patterns.replaced(text, pattern, "x", every=True)
    assert time.monotonic() - begin < 5
    if "(" in pattern:
        assert (is_fit, trims, replaced) == (None, [None] * 4, None) or long == 5_000
    elif pattern == "?":
        assert (is_fit, trims, replaced) == (False, [text[1:]] * 4, "x" * long)
    else:
        assert (is_fit, trims, replaced) == (False, [text] * 4, text)


def test_patterns_are_bashs() -> None:
    """In each place that takes one, by bash itself."""
    texts = ("", "abc", "aabbc", "abcabc", "cba", "ab/cd.ef")
    found = (
        "*",
        "?",
        "a*",
        "*b",
        "*b*",
        "[ab]",
        "[!a]*",
        "a?c",
        "+(a|b)",
        "@(ab|c)",
        "!(abc)",
        "*(b)c",
        "?(a)b*",
        "*.*",
        "*/",
    )
    script = "shopt -s extglob\n" + "".join(
        f"X='{text}'; [[ $X == {pattern} ]]; echo $?; "
        f'printf "%s\\n" "${{X#{pattern}}}" "${{X##{pattern}}}" "${{X%{pattern}}}" "${{X%%{pattern}}}"\n'
        f'P=\'{pattern}\'; echo "${{X//$P/Z}}"; echo "${{X/$P/Z}}"\n'
        for text in texts
        for pattern in found
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split("\n")
    told: list[str | None] = []
    for text in texts:
        for pattern in found:
            told.append(str(int(not patterns.fits(text, pattern))))
            told += [patterns.trimmed(text, pattern, sign) for sign in ("#", "##", "%", "%%")]
            told += [patterns.replaced(text, pattern, "Z", every=every) for every in (True, False)]
    assert told == done[:-1]
