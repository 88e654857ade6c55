"""Statements that no rule touches go round libcst and come back as they were."""

import ast
from textwrap import dedent

from extractor.pipeline.rewrite.placeholders import Placeholders

TEXT = dedent(
    '''\
    """Doc."""
    import os


    # About plain.
    @cached
    def plain(x):  # trailing
        """No word of it is anybody's business."""
        return x


    LIMIT = 3; OTHER = 4
    TABLE = {
        "a": 1,
    }


    def lazy():
        from verl.a import b
        return b


    class Fixed:
        def go(self):
            return low
    '''
)


def aside(text: str = TEXT) -> Placeholders:
    return Placeholders(text, ast.parse(text).body)


def test_what_comes_back_is_the_text() -> None:
    for text in (TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip("\n"), ""):
        made = aside(text)
        assert made.whole(made.compact) == text


def test_statements_keep_their_number() -> None:
    assert len(ast.parse(aside().compact).body) == len(ast.parse(TEXT).body)


def test_imports_and_shared_lines_stay_in_sight() -> None:
    compact = aside().compact
    assert "def plain" not in compact
    assert "TABLE" not in compact
    assert "LIMIT = 3; OTHER = 4" in compact
    assert "from verl.a import b" in compact
    assert "# About plain." in compact


def test_of_a_class_in_sight_the_other_methods_go() -> None:
    text = dedent(
        '''\
        class Batch:
            """Holds things."""

            size = 3

            @property
            def plain(self):
                return 1

            def lazy(self):
                from verl.a import b
                return b

            async def other(self): return 2
        '''
    )
    made = aside(text)
    assert "def plain" not in made.compact
    assert "def other" not in made.compact
    assert "from verl.a import b" in made.compact
    assert "size = 3" in made.compact
    assert made.whole(made.compact) == text


def test_a_text_that_mentions_ray_stays_whole() -> None:
    text = TEXT + "\n\ndef far():\n    return ray.get(1)\n"
    assert aside(text).compact == text
