"""What a mutant may be, and how they are drawn, counted and named."""

import ast

from benchmarks.mutants import Mutant, _draw, chosen
from benchmarks.mutations import Mutation, mutations, parses

TEXT = b'''"""A module."""
import logging

LIMIT = 3


class Rate:
    """Doc."""

    least: float = 0.5

    def at(self, step: int, warm: int = 4, *, name: str = "a") -> float:
        """Doc."""
        logging.info("at %s", step)
        if step < warm or not self.least:
            return step / max(1, warm)
        total = step
        total -= self.least
        total = min(total, key=-1)
        return total
'''


def of(function: str, kind: str) -> set[tuple[str, str]]:
    found = [item for item in mutations(TEXT) if item.function == function and item.kind == kind]
    return {(TEXT[item.start : item.end].decode(), item.new) for item in found}


def test_every_kind_of_change() -> None:
    assert of("Rate.at", "default") == {("4", "5"), ("4", "3"), ('"a"', "'ax'")}
    assert of("Rate", "constant") == {("0.5", "1.0"), ("0.5", "1.5")}
    operators = {("<", "<="), ("or", "and"), ("not self.least", "(self.least)"), ("/", "*"), ("-=", "+=")}
    assert of("Rate.at", "operator") == operators
    assert {("min", "max"), ("max", "min"), ("key=-1", "")} == of("Rate.at", "call")
    assert ("total -= self.least", "pass") in of("Rate.at", "statement")
    assert ("total = step", "pass") not in of("Rate.at", "statement")  # what follows would have no such name
    assert ("step < warm or not self.least", "False") in of("Rate.at", "condition")


def test_what_people_read_is_left_alone() -> None:
    for item in mutations(TEXT):
        changed = item.apply(TEXT)
        assert b'"""Doc."""' in changed
        assert b'logging.info("at %s", step)' in changed
        assert b"LIMIT = 3" in changed
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(TEXT))
        assert parses(changed)


def test_a_mutant_keeps_its_name_wherever_its_line_stands() -> None:
    moved = b"# one more line\n" + TEXT
    names = [{item.digest(text) for item in mutations(text)} for text in (TEXT, moved)]
    assert names[0] == names[1]
    assert len(names[0]) == len(mutations(TEXT))


def test_mutants_are_drawn_by_a_seed_and_named_by_function_change_and_number() -> None:
    mutants = [Mutant("a.py", "verl.a", TEXT, item, ("case",)) for item in mutations(TEXT)]
    drawn = _draw(mutants, 3, 5, "")
    assert drawn == _draw(mutants, 3, 5, "")
    assert len({mutant.mutation.line for mutant in drawn}) == 5
    assert drawn != _draw(mutants, 4, 5, "")
    assert {mutant.mutation.function for mutant in _draw(mutants, 3, 50, ":Rate.at")} == {"Rate.at"}
    named = [("verl.a:Rate.at", "condition", "True", 1), ("verl.a:Rate", "constant", "1.5", 1)]
    (first, second) = chosen(mutants, named)
    assert first.mutation.new == "True"
    assert isinstance(second.mutation, Mutation)
    assert second.mutation.whole
