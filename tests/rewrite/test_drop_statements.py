"""Unreachable statements go, with the comments that speak of them."""

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
    assert "\none = 1; three = 3\n" in drop_statements(SOURCE, frozenset({0, 1, 5, 7})).text
    assert drop_statements(SOURCE, frozenset()).text == '# Copyright of somebody\n"""What this is."""\n'
    assert drop_statements(SOURCE, frozenset(range(9))).text is SOURCE
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


@given(st.frozensets(st.integers(0, 8)))
def test_kept_statements_keep_their_bytes(kept: frozenset[int]) -> None:
    left = drop_statements(SOURCE, kept).text
    tree = ast.parse(SOURCE).body
    found = ast.parse(left).body
    wanted = [node for index, node in enumerate(tree) if index in kept | {0}]
    assert [ast.get_source_segment(left, node) for node in found] == [
        ast.get_source_segment(SOURCE, node) for node in wanted
    ]


CLASSES = textwrap.dedent(
    '''\
    # about
    @deco
    class Engine(Base):
        """Runs."""

        limit = 1

        # ---- running ----

        # says one
        def one(self):
            return 1
            # trailing

        @property
        def two(self):
            return 2

        # ---- the rest ----

        def three(self): return 3
        # below three
        last = 2


    class Only:
        def it(self): ...


    after = 1
    '''
)


def test_methods_go_with_their_comments() -> None:
    left = drop_statements(CLASSES, frozenset({0, 1, 2}), members={0: (2, 3, 4), 1: (0,)})
    assert left.text == textwrap.dedent(
        '''\
        # about
        @deco
        class Engine(Base):
            """Runs."""

            limit = 1

            # ---- the rest ----
            # below three
            last = 2


        class Only:
            pass


        after = 1
        '''
    )
    assert left.methods == ("Engine.one", "Engine.two", "Engine.three", "Only.it")
    assert [node.name for node in ast.parse(left.rest).body if isinstance(node, ast.ClassDef)] == ["Engine", "Only"]


@given(st.sets(st.sampled_from([2, 3, 4])))
def test_what_stays_of_a_class_is_what_python_reads(positions: set[int]) -> None:
    left = ast.parse(drop_statements(CLASSES, frozenset({0, 1, 2}), members={0: sorted(positions)}).text)
    whole = ast.parse(CLASSES)
    engine = whole.body[0]
    assert isinstance(engine, ast.ClassDef)
    engine.body = [node for position, node in enumerate(engine.body) if position not in positions]
    assert ast.dump(left) == ast.dump(whole)
