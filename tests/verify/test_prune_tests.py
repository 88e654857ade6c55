from __future__ import annotations

import textwrap

from extractor.pipeline.slicer import NotKept, Target
from extractor.usecases.verify.prune_tests import prune

KEPT = {
    ("verl.core", "kept"): Target("core", "kept"),
    ("verl", "core"): Target("core", None),
    ("verl.config", "Ours"): Target("shims.config", "Ours"),
}


class Known:
    def resolve_import(self, importer: str, imported: str, name: str | None) -> Target | None:
        if imported.partition(".")[0] != "verl":
            return None
        if (imported, name or "") in KEPT:
            return KEPT[imported, name or ""]
        raise NotKept(f"{imported}:{name}")


def pruned(text: str) -> tuple[tuple[str, ...], dict[str, str], str]:
    left_out = {"verl.core.deep:kept": ("gone", "lost")}
    found = prune("tests/test_x.py", textwrap.dedent(text), "tests.test_x", Known(), left_out)
    return found.kept, dict(found.dropped), found.text


def test_a_test_goes_with_the_symbol_that_it_needs() -> None:
    kept, dropped, text = pruned(
        """
        from verl.core import kept, gone

        def test_one():
            assert kept()

        @decorated
        def test_two():
            assert gone()
        """
    )
    assert kept == ("test_one",)
    assert dropped == {"test_two": "needs verl.core.gone, which is not vendored"}
    assert "test_one" in text
    assert "test_two" not in text
    assert "decorated" not in text


def test_a_test_goes_with_the_helper_that_it_needs() -> None:
    kept, dropped, _ = pruned(
        """
        from verl.core import kept, gone

        LIMIT = gone + 1

        def helper():
            return LIMIT

        def test_one():
            assert kept()

        def test_two():
            assert helper()
        """
    )
    assert kept == ("test_one",)
    assert list(dropped) == ["test_two"]


def test_methods_go_one_by_one_and_with_their_set_up() -> None:
    kept, dropped, text = pruned(
        """
        import unittest
        import verl.core
        from verl import core as c

        class TestA(unittest.TestCase):
            def test_one(self):
                verl.core.kept()
                c.kept()

            def test_two(self):
                c.gone()

        class TestB:
            def setUp(self):
                self.x = verl.core.gone

            def test_three(self):
                pass
        """
    )
    assert kept == ("TestA::test_one",)
    assert dropped == {
        "TestA::test_two": "needs verl.core.gone, which is not vendored",
        "TestB::test_three": "needs verl.core.gone, which is not vendored",
    }
    compile(text, "x", "exec")


def test_what_else_makes_a_test_go() -> None:
    _, dropped, _ = pruned(
        """
        import ray
        from verl.config import Ours

        def test_ray():
            ray.init()

        def test_ours():
            Ours()

        def test_patch():
            patch("verl.core.gone")

        def test_files():
            open("verl/config/x.yaml")
        """
    )
    assert dropped == {
        "test_ray": "needs Ray",
        "test_ours": "needs verl.config.Ours, which the project replaces by its own",
        "test_patch": "needs verl.core.gone, which is not vendored",
        "test_files": "needs upstream's own files",
    }


def test_a_test_goes_with_the_method_that_it_needs() -> None:
    kept, dropped, _ = pruned(
        """
        from verl.core import kept

        def test_one():
            assert kept().here()

        def test_two():
            assert kept().lost()
        """
    )
    assert kept == ("test_one",)
    assert dropped == {"test_two": "needs kept.lost, which is left out of its class"}
