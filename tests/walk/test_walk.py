"""The walker runs what a page says, and says where it cannot go on."""

from pathlib import Path

import pytest

from scripts.walk import WalkError, prints, walk


def page(tmp_path: Path, *blocks: str) -> Path:
    """A page with these blocks: the info string, a line end, the text."""
    path = tmp_path / "page.md"
    path.write_text("# A page\n\n" + "\n\nWords.\n\n".join(f"```{block}\n```" for block in blocks) + "\n", "utf-8")
    return path


def test_blocks_share_a_shell(tmp_path: Path) -> None:
    made = page(
        tmp_path, "bash\nmkdir sub\ncd sub\nexport WHO=me", "bash\necho $WHO > note", "text\nfalse", "python\n1/0"
    )
    assert walk(made, tmp_path).ran == ("page.md:3", "page.md:11")
    assert (tmp_path / "sub/note").read_text("utf-8") == "me\n"


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    made = page(tmp_path, "bash\ntrue", "bash\necho before\nls /no/such/place\necho after")
    with pytest.raises(WalkError, match=r"page\.md:9: exit code [^0](.|\n)*before\n(.|\n)*/no/such/place") as caught:
        walk(made, tmp_path)
    assert "\nafter" not in str(caught.value).split("--\n")[1]


def test_what_is_lacking_is_left_out(tmp_path: Path) -> None:
    made = page(tmp_path, "bash needs-gpu\ntouch one", "bash\ntouch two")
    assert walk(made, tmp_path).left_out == {"page.md:3": "gpu"}
    assert not (tmp_path / "one").exists()
    assert walk(made, tmp_path, have=["gpu"]).left_out == {}
    assert (tmp_path / "one").exists()


def test_an_exit_code_is_demanded(tmp_path: Path) -> None:
    walk(page(tmp_path, "bash exit=2\n(exit 2)", "bash\ntouch on"), tmp_path)
    assert (tmp_path / "on").exists()
    for code in (0, 1):
        with pytest.raises(WalkError, match=r"page\.md:3"):
            walk(page(tmp_path, f"bash exit=2\n(exit {code})"), tmp_path)


def test_files_and_fresh_directories(tmp_path: Path) -> None:
    made = page(tmp_path, "python file=a/b.py\nprint('ours')", "bash\npython3 a/b.py", "bash fresh\n[ ! -e a ]")
    assert len(walk(made, tmp_path).ran) == 3


def test_a_console_shows_what_is_printed(tmp_path: Path) -> None:
    for printed in ("one\ntwo", "o...\ntwo", "...\ntwo", "one\n..."):
        walk(page(tmp_path, f"console\n$ printf 'one\\ntwo\\n'\n{printed}\n$ true"), tmp_path)
    for printed in ("one", "two\none", "one\ntwo\nthree", "...\nthree"):
        with pytest.raises(WalkError, match=r"page\.md:4: the page shows other lines"):
            walk(page(tmp_path, f"console\n$ printf 'one\\ntwo\\n'\n{printed}"), tmp_path)
    walk(page(tmp_path, "console\n$ echo one \\\n>     two\none two"), tmp_path)
    assert prints(["..."], ["a", "b"])
    assert not prints(["a"], ["a", "b"])


def test_pages_that_are_not_as_they_should_be(tmp_path: Path) -> None:
    for block in ("\ntrue", "bash need-gpu\ntrue", "console\nprinted\n$ true"):
        with pytest.raises(WalkError, match=r"page\.md:[34]: "):
            walk(page(tmp_path, block), tmp_path)
