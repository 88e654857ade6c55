"""The table of cases names only what there is, and what is made for it is used."""

import re
from pathlib import Path

import pytest


def test_names_in_the_table_are_known_and_what_is_made_is_used() -> None:
    table = pytest.importorskip("extractor.usecases.verify.driver.table")
    text = Path(table.__file__).with_name("cases.yaml").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"\$(\w+)", text) if name != "name"}  # which its first lines explain
    assert named <= {*table.VALUES, *table.MADE, *table.CHOICES}
    assert {*table.MADE, *table.CHOICES} <= named
    assert not {*table.VALUES} & {*table.MADE, *table.CHOICES}
    assert len({family.name for family in table.read_table()}) == len(table.read_table())
