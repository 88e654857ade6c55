"""Merges by symbol and by key: an edit stays where it was made, and neighbours do not contradict each other."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from hypothesis import given, settings
from hypothesis import strategies as st

from extractor.pipeline.merge import Labels, Merged, statements
from extractor.pipeline.merge.files import merge_file, split_pieces
from extractor.pipeline.merge.pieces import find_changed
from extractor.values.indentation import reindent

LABELS = Labels("yours", "base", "theirs")


def merge(path: str, base: str, ours: str, theirs: str) -> Merged:
    return merge_file(path, *(dedent(side).encode() for side in (base, ours, theirs)), LABELS)


def merged(path: str, base: str, ours: str, theirs: str) -> str:
    """The merged text; there must be no conflict."""
    found = merge(path, base, ours, theirs)
    assert found.conflicts == 0, found.data.decode()
    return found.data.decode()


def conflicts(path: str, base: str, ours: str, theirs: str) -> str:
    found = merge(path, base, ours, theirs)
    assert found.conflicts > 0
    return found.data.decode()


BODY = """\
    ratio = new - old
    loss = ratio * advantage
    return loss
"""


def test_an_edit_stays_in_its_function_when_another_comes_with_the_same_lines() -> None:
    base = f"def vanilla(new, old, advantage):\n{BODY}"
    ours = base.replace("    return", "    loss = loss * 2\n    return")
    theirs = f"def vanilla(new, old, advantage):\n    return other(new)\n\n\ndef dppo(new, old, advantage):\n{BODY}"
    shown = conflicts("toy/algos.py", base, ours, theirs)
    assert shown.endswith(f"\n\ndef dppo(new, old, advantage):\n{BODY}")
    # Where the function itself stays, nothing contradicts anything.
    theirs = f"def dppo(new, old, advantage):\n{BODY}\n\n{base}"
    assert merged("toy/algos.py", base, ours, theirs) == f"def dppo(new, old, advantage):\n{BODY}\n\n{ours}"


def test_an_edit_goes_with_the_body_of_its_function() -> None:
    base = f"def vanilla(new, old, advantage):\n{BODY}"
    ours = base.replace("    return", "    loss = loss * 2\n    return")
    wrapper = "def vanilla(new, old, advantage):\n    return forward(new, old, advantage) + 1\n"
    moved = f"{wrapper}\n\ndef forward(new, old, advantage):\n{BODY}"
    there = f"{wrapper}\n\n{ours.replace('vanilla', 'forward')}"
    assert merged("toy/algos.py", base, ours, moved) == there
    # Of a method as well, wherever the new one stands.
    in_class, parts = "class A:\n{}", [f"def vanilla(self):\n{BODY}", f"def forward(self):\n{BODY}"]
    methods = [indented(part) for part in parts]
    calls = indented("def vanilla(self):\n    return self.forward()\n")
    edited = [method.replace("loss = ratio", "loss = 2 * ratio") for method in methods]
    sides = (in_class.format(text) for text in (methods[0], edited[0], f"{methods[1]}\n{calls}"))
    assert merged("toy/algos.py", *sides) == in_class.format(f"{edited[1]}\n{calls}")
    # Where the edit does not fit there either, or is of what is left, it is no business of the new one.
    changed_body = moved.replace("loss = ratio * advantage", "loss = ratio * advantage.detach()")
    contradicting = ours.replace("ratio * advantage", "advantage")
    conflicts("toy/algos.py", base, contradicting, changed_body)
    above = base.replace("def vanilla", "# mine\ndef vanilla")
    assert merged("toy/algos.py", base, above, moved) == f"# mine\n{moved}"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


# What is merged: base, ours, theirs, and what comes of them.
MERGES = {
    "both insert at one place": (
        "a = 1\n", "a = 1\n\n\ndef mine():\n    pass\n", "a = 1\n\n\ndef new():\n    pass\n",
        "a = 1\n\n\ndef mine():\n    pass\n\n\ndef new():\n    pass\n",
    ),
    "neighbours": ("a = 1\nb = 2\n", "a = 3\nb = 2\n", "a = 1\nb = 4\n", "a = 3\nb = 4\n"),
    "removed by its owner": ("a = 1\nb = 2\nc = 3\n", "a = 1\nc = 3\n", "a = 1\nb = 2\nc = 4\n", "a = 1\nc = 4\n"),
    "moved by upstream": (
        "def f():\n    pass\n\n\ndef g():\n    pass\n", "def f():\n    pass\n\n\ndef g():\n    return 1\n",
        "def g():\n    pass\n\n\ndef f():\n    pass\n", "def g():\n    return 1\n\n\ndef f():\n    pass\n",
    ),
    "moved by its owner": (
        "def f():\n    pass\n\n\ndef g():\n    pass\n", "def g():\n    pass\n\n\ndef f():\n    pass\n",
        "def f():\n    pass\n\n\ndef g():\n    return 2\n", "def g():\n    return 2\n\n\ndef f():\n    pass\n",
    ),
    "methods": (
        "class C:\n    def f(self):\n        pass\n",
        "class C:\n    def f(self):\n        pass\n\n    def mine(self):\n        pass\n",
        "class C:\n    x: int = 1\n\n    def f(self):\n        return 1\n",
        "class C:\n    x: int = 1\n\n    def f(self):\n        return 1\n\n    def mine(self):\n        pass\n",
    ),
    "renamed by its owner": (
        "def f(a):\n    b = a\n    return b + 1\n", "def mine(a):\n    b = a\n    return b + 1\n",
        "def f(a):\n    b = a\n    return b + 2\n", "def mine(a):\n    b = a\n    return b + 2\n",
    ),
    "imports are sets": (
        "from x import a, b\n\nprint(a, b)\n", "from x import a, b, mine\n\nprint(a, b)\nmine()\n",
        "from x import a, c\n\nprint(a, c)\n", "from x import a, c\nfrom x import mine\n\nprint(a, c)\nmine()\n",
    ),
    "an import that only the owner still needs": (
        "import numpy as np\nimport torch\n\na = np.zeros(torch.e)\nb = 1\n",
        "import numpy as np\nimport torch\n\na = np.zeros(torch.e)\nb = np.pi\n",
        "import torch\n\na = torch.e\nb = 1\n", "import torch\nimport numpy as np\n\na = torch.e\nb = np.pi\n",
    ),
    "imports from the future stay first": (
        "import os\n\na = os.sep\n", "import os\nimport mine\n\na = os.sep\n",
        "from __future__ import annotations\n\na = 1\n", "from __future__ import annotations\nimport mine\n\na = 1\n",
    ),
}  # fmt: skip
CONTRADICTIONS = {
    "a statement without a name": ("f(1)\n", "f(2)\n", "f(3)\n"),
    "a statement in another layout": (
        "def f(a):\n    b = a\n    return b\n", "def f(a):\n    b = (\n        2 * a\n    )\n    return b\n",
        "def f(a):\n    b = 3 * a\n    return b\n",
    ),
    "edited and removed": ("def f():\n    return 1\n", "def f():\n    return 2\n", "x = 1\n"),
    "removed and changed": ("def f():\n    return 1\n", "x = 1\n", "def f():\n    return 2\n"),
    "both add a name": ("x = 1\n", "x = 1\ny = 2\n", "x = 1\ny = 3\n"),
}  # fmt: skip


def test_python() -> None:
    for name, (*sides, expected) in MERGES.items():
        assert merged("toy/x.py", *sides) == expected, name
    for name, (base, ours, theirs) in CONTRADICTIONS.items():
        shown = conflicts("toy/x.py", base, ours, theirs)
        assert set(ours.split("\n")) | set(theirs.split("\n")) <= set(shown.split("\n")), name


LAID_OUT = """\
def loss(old, new, advantage):
    \'\'\'Says.\'\'\'
    # Of both.
    ratio = exp(new - old, "sum")
    if ratio.max() > 3:
        raise ValueError("large")
    return -(ratio * advantage).mean()
"""
# The same as an editor writes it that has 30 columns.
NARROW = """\
def loss(
    old, new, advantage,
):
    '''Says.'''
    # Of both.
    ratio = exp(
        new - old, 'sum'
    )
    if ratio.max() > 3:
        raise ValueError('large')
    return (
        -(ratio * advantage)
        .mean()
    )
"""


MINE = """\
    # Mine.
    ratio = (
        ratio + 1  # one more
    )
"""


NEW = LAID_OUT.replace("mean()", "sum()")
LAYOUTS = {
    "no edit": (NARROW, NEW, NEW),
    "an edit": (NARROW.replace(" > 3", " > 9"), NEW, NEW.replace("> 3", "> 9")),
    "an edit with remarks": (
        NARROW.replace("    if ratio", f"{MINE}    if ratio"),
        NEW.replace('"large"', '"too large"'),
        NEW.replace('"large"', '"too large"').replace("    if ratio", f"{MINE}    if ratio"),
    ),
    "wording": (
        NARROW.replace("Of both", "Mine").replace("Says", "Mine too"),
        NEW.replace("Of both", "New").replace("Says", "New"),
        NEW.replace("Of both", "Mine").replace("Says", "Mine too"),
    ),
    "removed by upstream": (NARROW, "x = 1\n", "x = 1\n"),
}


def test_layout_is_no_edit() -> None:
    for name, (ours, theirs, expected) in LAYOUTS.items():
        assert merged("toy/x.py", LAID_OUT, ours, theirs) == expected, name
    # Lines end where Python says so.
    base, narrow, new = (text.replace("Says", "Says\u2028and\x0bmore\x85") for text in (LAID_OUT, NARROW, NEW))
    assert merged("toy/x.py", base, narrow.replace("> 3", "> 9"), new) == new.replace("> 3", "> 9")
    # A contradiction in another layout holds the statement alone.
    shown = conflicts("toy/x.py", LAID_OUT, NARROW.replace("> 3", "> 4"), LAID_OUT.replace("> 3", "> 5"))
    before, after = LAID_OUT.split("    if ratio.max() > 3:\n")
    assert shown == (
        f"{before}<<<<<<< yours\n    if ratio.max() > 4:\n||||||| base\n    if ratio.max() > 3:\n=======\n"
        f"    if ratio.max() > 5:\n>>>>>>> theirs\n{after}"
    )


SOURCE = Path(statements.__file__).read_text(encoding="utf-8")
LOOP = """\
def total(rows, limit=None):
    '''Add up.

    More.
    '''
    if limit is None:
        limit = 3
    found = 0
    for row in rows:
        # Of a row.
        found += row
    return found


class Adds:
    def add(self, row):
        with self.lock:
            self.found += row
"""


def halved(text: str) -> str:
    return "\n".join(" " * ((len(line) - len(line.lstrip())) // 2) + line.lstrip() for line in text.split("\n"))


def test_an_edit_in_a_file_that_is_indented_otherwise_stays_in_its_block() -> None:
    """Beside what upstream changes in the same functions."""
    theirs = LOOP.replace("rows, limit=None", "rows, limit=None, *_").replace("self, row", "self, row, *_")
    for place, edit in (
        ("        limit = 3\n", "        limit = 2 * limit  # mine\n"),
        ("        found += row\n", "        # Mine.\n        print(found)\n"),
        ("            self.found += row\n", "            self.rows.append(row)\n"),
    ):
        assert place in LOOP
        ours = halved(LOOP.replace(place, place + edit))
        assert merged("toy/x.py", LOOP, ours, theirs) == theirs.replace(place, place + edit)
    tabs = "\n".join("\t" * ((len(line) - len(line.lstrip())) // 4) + line.lstrip() for line in LOOP.split("\n"))
    assert merged("toy/x.py", LOOP, tabs, theirs) == theirs
    # An edit of the line that upstream changed contradicts it as ever, and what was put out of a block is not put back.
    out = LOOP.replace("        found += row\n", "    found += row\n")
    assert "\n    found += row\n" in conflicts("toy/x.py", LOOP, out, LOOP.replace("found += row", "found += 2 * row"))
    conflicts("toy/x.py", LOOP, LOOP.replace("found += row", "found += 2 * row"), out)
    conflicts("toy/x.py", LOOP, halved(LOOP.replace("limit=None)", "limit=5)")), theirs)


def formatted(data: bytes, *options: str) -> bytes:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", *options, "--stdin-filename", "x.py", "-"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def test_indentation_says_nothing() -> None:
    for text, width in itertools.product((LOOP, SOURCE, Path(__file__).read_text(encoding="utf-8")), (1, 3, 8)):
        plain = formatted(text.encode()).decode()
        other = formatted(text.encode(), f"--config=indent-width={width}").decode()
        assert reindent(plain) == plain
        assert statements.is_same_python(reindent(other), plain)
        assert not statements.is_same_python(other, plain)
    assert reindent("if 1:\n  x = (\n") == "if 1:\n  x = (\n", "what is no Python keeps its own"


YAML = """\
algorithm:
  # How.
  adv_estimator: grpo
  norm_adv_by_std_in_grpo: true
  gamma: 1.0

trainer:
  steps: 3
"""


def test_comments_at_imports_are_never_lost() -> None:
    for mine in (b"from a import x, y  # mine \t\n", b"# mine\nfrom a import x, y\n", b"from a import y  # mine\n"):
        found = merge_file("m.py", b"from a import x, y\n", mine, b"from a import y, z\n", LABELS)
        assert b"# mine" in found.data
        assert found.conflicts or b"import y, z" in found.data
    # An import that its owner took out stays out.
    plain = "import logging\nimport os\n\na = logging.INFO\nb = 1\n"
    without, changed = plain.replace("import logging\n", ""), plain.replace("b = 1", "b = 2")
    assert merged("m.py", plain, without, changed) == without.replace("b = 1", "b = 2")


def test_yaml_by_key() -> None:
    ours = YAML.replace("_in_grpo: true\n", "_in_grpo: true\n  mine: 1\n").replace("steps: 3", "steps: 4  # enough")
    theirs = YAML.replace("grpo: true", "grpo: false").replace("trainer:", "# Runs.\ntrainer:")
    assert merged("config/a.yaml", YAML, ours, theirs) == (
        "algorithm:\n  # How.\n  adv_estimator: grpo\n  norm_adv_by_std_in_grpo: false\n  mine: 1\n  gamma: 1.0\n\n"
        "# Runs.\ntrainer:\n  steps: 4  # enough\n"
    )
    shown = conflicts("config/a.yaml", YAML, YAML.replace("steps: 3", "steps: 4"), YAML.replace("steps: 3", "steps: 5"))
    assert "  steps: 4\n" in shown
    assert "  steps: 5\n" in shown


TOML = """\
[project]
version = "0.1.0"
description = "with verl 0.6.1"
dependencies = [
    "torch>=2",
    "ray",
]

[tool.x]
on = true
"""


def test_toml_by_key_and_by_item() -> None:
    ours = TOML.replace('"0.1.0"', '"0.2.0"').replace('    "ray",\n', '    "ray",\n    "mine>=1",\n')
    ours += "\n[tool.mine]\na = 1\n"
    theirs = TOML.replace("0.6.1", "0.7.1").replace("torch>=2", "torch>=3").replace('"ray"', '"numpy"')
    assert merged("pyproject.toml", TOML, ours, theirs) == (
        '[project]\nversion = "0.2.0"\ndescription = "with verl 0.7.1"\n'
        'dependencies = [\n    "torch>=3",\n    "mine>=1",\n    "numpy",\n]\n\n'
        "[tool.x]\non = true\n\n[tool.mine]\na = 1\n"
    )


def test_what_cannot_be_taken_apart_is_merged_by_line() -> None:
    base, ours, theirs = b"(: [\n1\n2\n3\n", b"(: [\n1\n2\n4\n", b"{: [\n1\n2\n3\n"
    for path in ("toy/x.py", "config/a.yaml", "pyproject.toml"):
        assert merge_file(path, base, ours, theirs, LABELS).data == b"{: [\n1\n2\n4\n"


def test_line_ends_marks_and_bytes() -> None:
    base, theirs, far = b"a = 1\nb = 2\n", b"a = 1\nb = 3\n", b"1\n2\n3\n# \xe9\n"
    for ours, wanted in (
        (b"a = 4\r\nb = 2\r\n", b"a = 4\r\nb = 3\r\n"),
        (b"\xef\xbb\xbfa = 4\nb = 2\n", b"\xef\xbb\xbfa = 4\nb = 3\n"),
        (b"a = 4\nb = 2", b"a = 4\nb = 3"),
    ):
        assert merge_file("x.py", base, ours, theirs, LABELS).data == wanted
    assert merge_file("x.py", base + far[:6], base + far, theirs + far[:6], LABELS).data == theirs + far


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)
MODULE = NAMES.flatmap(
    lambda names: st.lists(st.integers(1, 3), min_size=len(names), max_size=len(names)).map(
        lambda values: "".join(f"def {n}():\n    return {v}\n\n\n" for n, v in zip(names, values, strict=True))
    )
)


@given(MODULE, MODULE, MODULE)
@settings(max_examples=150)
def test_the_pieces_that_differ_are_those_that_were_edited(base: str, ours: str, theirs: str) -> None:
    found = merge_file("x.py", base.encode(), ours.encode(), theirs.encode(), LABELS)
    if found.conflicts:
        return
    b, o, t, m = (split_pieces("x.py", side) for side in (base, ours, theirs, found.data.decode()))
    assert find_changed(t, m) == find_changed(b, o) & find_changed(t, o)


DISPLAY = """
def measure(batch):
    metrics = {
        # score
        "score/mean": mean(batch.score),
        "score/max": max(batch.score),
        # length
        "length/mean": mean(batch.length),  # of all
        **({"values": batch.values} if batch.values else {}),
    }
    return metrics
"""


def test_displays_are_merged_by_key() -> None:
    mine = '"mine": batch.mine,\n    '
    theirs = DISPLAY.replace("(batch.", "(batch.whole.").replace("# length\n", '"new": 1,\n        # length\n')
    for place in ('"score/mean"', '"score/max"', "# length", '"length/mean"', "**({", "}\n    return"):
        ours = DISPLAY.replace(place, f"{mine}    {place}" if place[0] != "}" else f"    {mine}{place}")
        found = ast.parse(merged("toy/x.py", DISPLAY, ours, theirs))
        (display,) = (node for node in ast.walk(found) if isinstance(node, ast.Dict) and len(node.keys) > 1)
        keys = [ast.literal_eval(key) if key else None for key in display.keys]
        assert sorted(keys, key=str) == [None, "length/mean", "mine", "new", "score/max", "score/mean"], place
        assert ast.unparse(found).count("batch.whole.") == 3


def test_a_key_that_both_changed_is_the_conflict_alone() -> None:
    ours = DISPLAY.replace("max(batch.score)", "max(batch.score) + 1").replace("    }\n", '        "mine": 1,\n    }\n')
    shown = conflicts("toy/x.py", DISPLAY, ours, DISPLAY.replace("(batch.", "(batch.whole."))
    assert shown.count("<<<<<<<") == 1
    assert shown.count('"score/max"') == 3
    assert shown.count('"score/mean"') == shown.count('"mine"') == 1
