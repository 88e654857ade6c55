"""Unreachable statements go, with the comments that speak of them."""

from __future__ import annotations

import ast
import textwrap

from hypothesis import given
from hypothesis import strategies as st

from extractor.pipeline.rewrite.drop_statements import drop_statements

SOURCE = textwrap.dedent(
    '''\
    # Copyright of somebody
    """What this is."""

    import os

    LIMIT = 3  # why three


    # ---- greetings ----


    # says hello
    def hello():
        return "hello"  # odd   spacing
        # trailing thought


    @staticmethod
    def bye(
        a,
    ): return (  a )


    # ---- numbers ----

    one = 1; two = 2; three = 3


    class Last:
        x: int   = 0
    # the end
    '''
)


def test_attached_comment_goes_with_its_statement() -> None:
    left = drop_statements(SOURCE, frozenset({0, 1, 2, 4, 5, 6, 7, 8}))
    assert "says hello" not in left.text
    assert "trailing thought" not in left.text
    assert left.names == ("hello",)
    assert "# ---- greetings ----\n\n\n@staticmethod\ndef bye(\n    a,\n): return (  a )\n" in left.text


def test_a_section_comment_goes_with_its_last_statement() -> None:
    left = drop_statements(SOURCE, frozenset({0, 1, 2, 8}))
    assert left.text == textwrap.dedent(
        '''\
        # Copyright of somebody
        """What this is."""

        import os

        LIMIT = 3  # why three


        class Last:
            x: int   = 0
        # the end
        '''
    ).replace("LIMIT = 3  # why three\n\n\nclass", "LIMIT = 3  # why three\n\n\n# ---- numbers ----\n\n\nclass")


def test_some_statements_of_a_line() -> None:
    assert "\none = 1; three = 3\n" in drop_statements(SOURCE, frozenset({0, 1, 5, 7})).text


def test_the_docstring_and_the_licence_always_stay() -> None:
    assert drop_statements(SOURCE, frozenset()).text == '# Copyright of somebody\n"""What this is."""\n'


def test_nothing_to_drop_is_the_text_itself() -> None:
    assert drop_statements(SOURCE, frozenset(range(9))).text is SOURCE


@given(st.frozensets(st.integers(0, 8)))
def test_kept_statements_keep_their_bytes(kept: frozenset[int]) -> None:
    left = drop_statements(SOURCE, kept).text
    tree = ast.parse(SOURCE).body
    found = ast.parse(left).body
    wanted = [node for index, node in enumerate(tree) if index in kept | {0}]
    assert [ast.get_source_segment(left, node) for node in found] == [
        ast.get_source_segment(SOURCE, node) for node in wanted
    ]
