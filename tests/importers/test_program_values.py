"""What a program makes a class with, said as expressions of its config: they give what the program itself gives."""

from __future__ import annotations

import ast
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from extractor.importers.runs.taken_over.manager_hooks import handed_by_programs

PROGRAM = """
    def main(config, tokenizer):
        kind = config.intrinsic.type
        if kind == "certain":
            scales = list(config.certain.scales)
            config.certain.seen = 2
        elif kind == "novel":
            scales = list(config.novel.scales)
        else:
            scales = [0.0, -1.0]
        try:
            weight = float(config.get("weight", 1))
        except TypeError:
            raise
        trained = None
        if kind == "novel":
            trained = Trained(scales)
        more = {"weight": weight, "n": (kind, len(scales))}
        seen = config.certain.seen
        return Manager(tokenizer=tokenizer, kind=kind, scales=scales, seen=seen, more=more, trained=trained)
    """


class Config(SimpleNamespace):
    def get(self, name: str, other: Any = None) -> Any:
        return getattr(self, name, other)


def config(kind: str, **more: Any) -> Config:
    certain, novel = Config(scales=(1, 2), seen=0), Config(scales=(3,))
    return Config(intrinsic=Config(type=kind), certain=certain, novel=novel, **more)


@pytest.mark.parametrize("kind", ["certain", "novel", "none"])
@pytest.mark.parametrize("more", [{}, {"weight": "2.5"}])
def test_expressions_give_what_the_program_hands_over(kind: str, more: dict[str, Any]) -> None:
    text = dedent(PROGRAM)
    found, others = handed_by_programs([text], "Manager")
    assert others == ["trained"]
    names: dict[str, Any] = {"Manager": dict, "Trained": list}
    exec(text, names)
    expected = names["main"](config(kind, **more), None)
    here = {"config": config(kind, **more), "tokenizer": None}
    assert {name: eval(value, {}, dict(here)) for name, value in found.items()} == {
        name: value for name, value in expected.items() if name not in ("tokenizer", "trained")
    }


@pytest.mark.parametrize(
    "text",
    [
        "a = b\nb = a\nManager(n=a)\n",
        "a = [a, a]\n" * 30 + "Manager(n=a)\n",
        "a0 = [config.x] * 9\n" + "".join(f"a{n + 1} = [a{n}, a{n}]\n" for n in range(30)) + "Manager(n=a30)\n",
        "a = config.x\n" + "if config.y: a = [a]\n" * 40 + "Manager(n=a)\n",
        f"Manager(n={'-' * 3000}1)\n",
    ],
)
def test_values_that_hang_on_each_other_come_to_an_end(text: str) -> None:
    found, others = handed_by_programs([text], "Manager")
    assert {*found, *others} <= {"n"}
    for value in found.values():
        ast.parse(value)
        assert len(value) < 3_000
