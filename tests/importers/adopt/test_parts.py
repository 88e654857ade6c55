"""Segments, and merging a symbol."""

from __future__ import annotations

import ast

import pytest

from extractor.importers.adopt import assemble, narrower
from extractor.importers.adopt.combine import combine
from extractor.importers.adopt.disagreements import disagreements, unfed
from extractor.importers.adopt.own_keys import read_by, without_field
from extractor.importers.adopt.segments import join, split
from extractor.importers.adopt.upstream_names import decoded, with_upstream_names
from extractor.pipeline.index.batch_keys import keys_written
from tests.releases import newest_release, source_of


@pytest.mark.parametrize("release", newest_release("0.6.1"))
@pytest.mark.usefixtures("verl")
def test_segments_make_the_text_again(release: str) -> None:
    files = source_of(release).files
    for path in sorted(files)[::4]:
        text = decoded(files[path])
        if path.endswith(".py") and text is not None:
            assert join(list(split(text))).rstrip("\n") == text.rstrip("\n"), path


def test_segments() -> None:
    text = "# top\n\nimport a\nx = 1; y = 2\n\n\n# about f\n@dec\ndef f():\n    pass\n\n\nx = 3\nprint(x)\n# end\n"
    found = split(text)
    assert [item.key for item in found] == [
        "comments at the top",
        "`import a`",
        "x",
        "f",
        "x (2)",
        "`print(x)`",
        "comments at the end",
    ]
    assert found[3].core == "# about f\n@dec\ndef f():\n    pass\n"
    assert join(list(found)) == text


def test_a_setting_is_read_where_a_section_of_the_forks_own_is() -> None:
    new = {"actor_rollout_ref.rollout.hard_kwargs.n": 100, "trainer.own_loss": "x", "actor_rollout_ref.rollout.n": 2}
    code = ["def f(config):\n    return config.rollout.n, config.trainer.own_loss\n"]
    assert read_by(new, code).keys() == {"trainer.own_loss", "actor_rollout_ref.rollout.n"}
    assert read_by(new, [*code, "kwargs = rollout.hard_kwargs\n"]).keys() == new.keys()


def test_combine() -> None:
    base = "a\nb\nc\n"
    assert combine(base, base, "a\nB\nc\n") == "a\nB\nc\n"
    assert combine(base, "a\nb\nnew\nc\n", "A\nb\nc\n") == "A\nb\nnew\nc\n"
    # Neighbouring lines, which git calls a conflict.
    assert combine(base, "a\nB\nc\n", "A\nb\nc\n") == "A\nB\nc\n"
    assert combine(base, "a\nmine\nc\n", "a\ntheirs\nc\n") is None


def test_combine_within_a_line() -> None:
    """Where vextract changed a line that a fork changed as well, in other words of it."""
    base, fork = "x = call(a, b=1, **more)\n", "x = call(a, b=1, mine=2, **more)\n"
    fixed = "y = call(a, b=1, return_dict=False, **more)\n"
    assert combine(base, fork, fixed) is None
    merged = combine(base, fork, fixed, finely=True)
    assert merged == "y = call(a, b=1, mine=2, return_dict=False, **more)\n"
    assert combine("x = a + b\n", "x = a + c\n", "x = a + d\n", finely=True) is None
    assert combine("x = f(a)\n", "x = f(b, a)\n", "x = f(c, a)\n", finely=True) is None, "no keywords: the order counts"


def test_combine_by_statement() -> None:
    """Upstream formatted a function after it was copied; comments and layout are upstream's."""
    base = "def f(a,\n      b):\n    c = 'x'\n    d = g(a,\n          b, c=1)\n    return c, d\n"
    fork = base.replace("          b, c=1)\n    return", "          b, c=1)\n    d.append(1)\n    return")
    later = 'def f(a, b):\n    # why\n    c = "x"\n    d = g(\n        a,\n        b,\n        c=1,\n    )\n'
    later += "    return c, d\n"
    merged = later.replace("    return", "    d.append(1)\n    return")
    assert combine(base, fork.replace("'x'", "'x' "), later) == merged
    assert combine(base, fork.replace("'x'", "'mine'"), later.replace('"x"', '"theirs"')) is None


def files(**texts: str) -> dict[str, bytes]:
    return {f"p/{name}.py": text.encode() for name, text in texts.items()}


@pytest.mark.parametrize(
    ("function", "call", "what"),
    [
        ("def f(a, b=1): ...", "f(1, b=2)", None),
        ("def f(a): ...", "f(1, b=2)", "hands b to f, which does not take it"),
        ("def f(a, **more): ...", "f(1, b=2)", None),
        ("def f(a): ...", "f(1, 2)", "hands 2 arguments to f, which does not take so many"),
        ("def f(a, *more): ...", "f(1, 2)", None),
        ("def f(a, b): ...", "f(1)", "does not hand b to f, which needs it"),
        ("def f(a, *, b): ...", "f(a=1)", "does not hand b to f, which needs it"),
        ("def f(a, b): ...", "f(*x)", None),
        ("def f(a, b): ...", "f(1, **x)", "does not hand b to f, which needs it"),
        ("def f(a, b): ...", "x = dict(b=1)\n    f(1, **x)", None),
        ("def f(a, b): ...", "x = {'b': 1}\n    f(1, **x)", None),
        ("def f(a, b): ...", "def h(**more):\n        f(1, **more)", None),
        ("def f(a, b=None):\n    return b.c", "f(1)", "does not hand b to f, which needs it"),
        ("def f(a, b=None):\n    return b.c", "f(1, 2)", None),
        ("def f(a, *, b=None):\n    return b.c", "f(1, b=2)", None),
        ("def f(a, b=None):\n    b = b or a\n    return b.c", "f(1)", None),
        ("def f(a, b=None):\n    return b.c if b else a", "f(1)", None),
        ("def f():\n    return 1, 2, 3", "a, b = f()", "takes 2 values from f, which returns 3"),
        ("def f():\n    return 1, 2", "a, b = f()", None),
        ("def f():\n    if x: return 1, 2\n    return y", "a, b, c = f()", None),
        ("def f():\n    return 1, 2, 3", "a, *b = f()", None),
        ("def f():\n    def g(): return 1\n    return 1, 2", "a, b = f()", None),
        ("@wrapped\ndef f(): ...", "f(1)", None),
        ("@register_it('f')\ndef f(): ...", "f(1)", "hands 1 arguments to f, which does not take so many"),
    ],
)
def test_calls_that_do_not_fit(function: str, call: str, what: str | None) -> None:
    for head, name in (
        ("from p.own import f", "f("),
        ("import p.own as core", "core.f("),
        ("from p import own", "own.f("),
    ):
        caller = f"{head}\n\ndef g(x):\n    {call.replace('f(', name)}\n"
        found = [item for item in disagreements(files(own=function, other=caller)) if item.is_certain]
        assert [item.what for item in found] == ([] if what is None else [what]), caller
        assert all((item.caller, item.called) == (("p.other", "g"), ("p.own", "f")) for item in found)
    bound = f"from p.own import f\n\ndef g(x, f):\n    {call}\n"
    assert not list(disagreements(files(own=function, other=bound)))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("self.forward(x, more=1)", "hands more to forward, which does not take it"),
        ("self.forward(x, 1, 2)", "hands 3 arguments to forward, which does not take so many"),
        ("self.forward(x, known=1)", None),
        ("self.backward(x, more=1)", None),
    ],
)
def test_a_method_that_the_project_replaces_is_called_as_it_takes(call: str, what: str | None) -> None:
    ours = "class Actor:\n    def __init__(self, inner):\n        inner.forward = self.forward\n"
    ours += (
        "        inner.other = self.backward\n    def forward(self, x, known=None): ...\n    def backward(self): ...\n"
    )
    theirs = "class Upstreams:\n    def forward(self, x, known=None, more=None): ...\n"
    theirs += f"    def run(self, x):\n        {call}\n"
    found = [(item.caller, item.called, item.what) for item in disagreements(files(ours=ours, theirs=theirs))]
    assert found == ([] if what is None else [(("p.theirs", "Upstreams"), ("p.ours", "forward"), what)])


@pytest.mark.parametrize(("function", "fits"), [("def f(a, b=1): ...", False), ("def f(a, **more): ...", True)])
def test_a_call_that_hands_over_more_by_name_may_not_fit(function: str, fits: bool) -> None:
    caller = "from p.own import f\n\ndef g(x):\n    f(1, **x)\n"
    found = list(disagreements(files(own=function, other=caller)))
    assert [(item.what, item.is_certain) for item in found] == (
        [] if fits else [("hands more by name to f, which takes no further arguments", False)]
    )


def test_keys_that_nothing_puts_into_a_batch() -> None:
    text = "def f(data):\n    return data.meta_info['a'], data.batch['b'], data['c'], data.batch['d']\n"
    assert list(unfed(files(own=text, other="NAMES = ['b']\n"))) == [(("p.own", "f"), "a"), (("p.own", "f"), "d")]
    stores = "def g(data):\n    data.batch['d'] = data.meta_info['a']\n    return {'a': 1}\n"
    assert list(unfed(files(own=text, other=stores))) == [(("p.own", "f"), "b")]


def test_columns_that_are_selected_are_read() -> None:
    """As verl's actor does: what is read of the selection is named by no other code for that."""
    text = """
def f(data):
    wanted = ["a", "b"]
    if data.more:
        wanted.append("c")
    part = data.select(batch_keys=wanted)
    return part["a"], data.pop(batch_keys=["d"], non_tensor_batch_keys=["e"])
"""
    assert list(unfed(files(own=text))) == [(("p.own", "f"), key) for key in ("a", "b", "d")]
    assert list(unfed(files(own=text, other="def g(x):\n    return x['a'], {'b': 1, 'd': 2}\n"))) == []


def test_columns_that_only_the_code_of_a_fork_gives_to_rows() -> None:
    text = "def f(data):\n    return data.non_tensor_batch['a'], data.non_tensor_batch['b'], data.batch['c']\n"
    assert list(unfed(files(own=text), of_rows=True)) == [(("p.own", "f"), "a"), (("p.own", "f"), "b")]
    other = "def g(data):\n    data.batch['c'] = data.non_tensor_batch['a']\n    return {'b': 1, 'x/a': 2}\n"
    named = files(own=text, other=other)
    assert list(unfed(named, of_rows=True)) == [(("p.own", "f"), "a"), (("p.other", "g"), "a")]
    levels = "LEVELS = ['a', 'b', 'info']\n"  # of something that has nothing to do with it
    assert list(unfed(files(own=text, levels=levels), of_rows=True)) == list(unfed(files(own=text), of_rows=True))
    stores = "def h(data):\n    data.non_tensor_batch['a'] = 1\n    data.batch['x'] = 2\n    other['y'] = 3\n"
    stores += "    reward_extra_info['b'].append(1)\n    found.reward_extra_info['c'] = 2\n"
    stores += "    output.extra_fields['d'] = 1\n    output.extra_fields.update({'e': 2}, f=extra_fields['no'])\n"
    stores += "    return AgentLoopOutput(prompt_ids=[], extra_fields={'f': 3, **more})\n"
    assert sorted(keys_written(ast.walk(ast.parse(stores)))) == ["a", "b", "c", "d", "e", "f"]


def test_settings_that_a_typed_config_could_not_hold() -> None:
    typed = b"from dataclasses import dataclass\n\n@dataclass\nclass PolicyLossConfig(Base):\n    known: int = 1\n"
    more = b"from dataclasses import dataclass\n\n@dataclass\nclass FSDPPolicyLossConfig(Base):\n    further: int = 1\n"
    keys = ["actor.policy_loss.known", "actor.policy_loss.further", "actor.policy_loss.mine.a", "algorithm.mine"]
    assert without_field(keys, [typed, more, b"x = 1"]) == {"actor.policy_loss.mine.a": "PolicyLossConfig"}


def test_names() -> None:
    text = "from my.copy.utils import x\nimport my.copy.protocol as p\ny = 'my.copy.utils.device'\nz = my.copy.mine\n"
    assert with_upstream_names(text, ("my.copy",)) == (
        "from verl.utils import x\nimport verl.protocol as p\ny = 'verl.utils.device'\nz = my.copy.mine\n"
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "lacks"),
    [
        ("def f(a, *, b=1): pass", "def f(a, b): pass", []),
        ("def f(a, b): pass", "def f(a): pass", ["b"]),
        ("def f(a, b): pass", "def f(a, **more): pass", []),
        ("class C(Enum):\n    X = 1\n    Y = 2", "class C(Enum):\n    X = 1\n    Z = 3", ["C.Y"]),
        ("class C:\n    x: int = 1\n    def f(self, a): pass", "class C:\n    def f(self): pass", ["C.x", "a of C.f"]),
        ("class C:\n    def _f(self): pass", "class C:\n    pass", []),
        ("X = 1", "X = 2", []),
    ],
)
def test_what_a_version_of_another_day_lacks(ours: str, theirs: str, lacks: list[str]) -> None:
    assert narrower.lacking(ast.parse(ours).body[0], theirs) == lacks


@pytest.mark.parametrize(
    ("text", "early"),
    [
        ("def f(a: int | Kind): pass\nclass Kind: pass", {"Kind"}),
        ("from __future__ import annotations\ndef f(a: int | Kind): pass\nclass Kind: pass", set()),
        ("@register(Kind)\ndef f(): pass\nclass Kind: pass", {"Kind"}),
        ("class Kind: pass\n@register(Kind)\ndef f(): pass\nclass Kind: pass", set()),
        ("def f():\n    return Kind\nclass Kind: pass", set()),
        ("class f:\n    x = Kind\nclass Kind: pass", {"Kind"}),
    ],
)
def test_what_a_definition_needs_before_it_is_there(text: str, early: set[str]) -> None:
    assert assemble._early(ast.parse(text), "f") == early
