"""The walker runs what a page says, and says where it cannot go on."""

from pathlib import Path

import pytest

from scripts.walk import WalkError, walk


def page(tmp_path: Path, *blocks: str) -> Path:
    """A page with these blocks: the info string, a line end, the text."""
    path = tmp_path / "page.md"
    path.write_text("# A page\n\n" + "\n\nWords.\n\n".join(f"```{block}\n```" for block in blocks) + "\n", "utf-8")
    return path


def test_blocks_share_a_shell_and_those_that_fail_are_named(tmp_path: Path) -> None:
    made = page(tmp_path, "bash\nmkdir sub\ncd sub\nexport WHO=me", "bash\necho $WHO > note", "text\nfalse")
    assert walk(made, tmp_path).ran == ("page.md:3", "page.md:11")
    assert (tmp_path / "sub/note").read_text("utf-8") == "me\n"
    made = page(tmp_path, "bash\ntrue", "bash\necho before\nls /no/such/place\necho after")
    with pytest.raises(WalkError, match=r"page\.md:9: exit code [^0](.|\n)*before\n(.|\n)*/no/such/place"):
        walk(made, tmp_path)
    for code in (0, 1):  # one that is demanded
        with pytest.raises(WalkError, match=r"page\.md:3"):
            walk(page(tmp_path, f"bash exit=2\n(exit {code})"), tmp_path)
    for block in ("\ntrue", "bash need-gpu\ntrue", "console\nprinted\n$ true"):
        with pytest.raises(WalkError, match=r"page\.md:[34]: "):
            walk(page(tmp_path, block), tmp_path)


def test_what_is_lacking_is_left_out(tmp_path: Path) -> None:
    made = page(tmp_path, "bash needs-gpu\ntouch one", "python file=a/b.py\nprint()", "bash fresh\n[ ! -e a ]")
    assert walk(made, tmp_path).left_out == {"page.md:3": "gpu"}
    assert not (tmp_path / "one").exists()


def test_a_console_shows_what_is_printed(tmp_path: Path) -> None:
    for printed in ("one\ntwo", "o...\ntwo", "...\ntwo", "one\n..."):
        walk(page(tmp_path, f"console\n$ printf 'one\\ntwo\\n'\n{printed}\n$ true"), tmp_path)
    for printed in ("one", "two\none", "one\ntwo\nthree", "...\nthree"):
        with pytest.raises(WalkError, match=r"page\.md:4: the page shows other lines"):
            walk(page(tmp_path, f"console\n$ printf 'one\\ntwo\\n'\n{printed}"), tmp_path)
