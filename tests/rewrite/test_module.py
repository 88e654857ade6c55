"""The stages together: header, substitutes, strings, line ends."""

from extractor.pipeline.slicer import Substitute, Target
from tests.rewrite.support import after, body, emit

SOURCE = '''
# Licence of somebody.
"""Prose about verl.utils.numbers.tally."""

import os


def timer():
    return os.times()


def used():
    """See verl.utils.numbers.tally."""
    return timer(), load("verl.utils.numbers.tally"), load("verl.nowhere.at_all"), "not verl.utils.numbers.tally"


def unused():
    return 1
'''


def test_whole_output() -> None:
    substitute = Substitute(2, "timer", Target("shims.timing", "timer"))
    emitted = emit(SOURCE, kept=(0, 1, 2, 3), substitutes=(substitute,))
    assert emitted.text == after(
        '''
        # vextract:vendored verl/deep/pack/thing.py, modified (see NOTICE and vextract.lock)
        # Licence of somebody.
        """Prose about verl.utils.numbers.tally."""

        from toy.shims.timing import timer


        def used():
            """See verl.utils.numbers.tally."""
            return timer(), load("toy.utils.numbers.tally"), load("verl.nowhere.at_all"), "not verl.utils.numbers.tally"
        '''
    )
    assert emitted.changes == (
        "dropped 1 unreachable definition: unused",
        "taken from this project's own code: timer",
        "paths in strings redirected: verl.utils.numbers.tally",
        "unused imports dropped",
    )
    assert emitted.path == "deep/pack/thing.py"
    assert emitted.warnings == ("verl/deep/pack/thing.py:13: the string 'verl.nowhere.at_all' names nothing vendored",)


def test_line_ends_and_a_shebang() -> None:
    text = emit("from verl import Batch\r\nimport os\r\n\r\nx = Batch\r\n").text
    assert text.count("\r\n") == text.count("\n")
    assert text.endswith("from toy.protocol import Batch\r\n\r\nx = Batch\r\n")
    assert "\r" not in emit("x = 1\r\ny = 2\nz = 3\n").text, "mixed ends become one kind"
    text = emit("#!/usr/bin/env python\n# Licence.\nx = 1\n").text
    assert text.startswith("# vextract:vendored")
    assert text.endswith("\n# Licence.\nx = 1\n")


def test_substitutes() -> None:
    source = "from zoo import ape, bear\n\nprint(ape, bear)\n"
    text = body(emit(source, substitutes=(Substitute(0, "bear", Target("shims.zoo", "bear")),)))
    assert text == "from zoo import ape\nfrom toy.shims.zoo import bear\n\nprint(ape, bear)\n"
    # One that is imported already.
    source = "from toy.shims.timing import timer\n\ndef timer(): ...\n\ntimer()\n"
    text = body(emit(source, substitutes=(Substitute(1, "timer", Target("shims.timing", "timer")),)))
    assert text == "from toy.shims.timing import timer\n\ntimer()\n"
