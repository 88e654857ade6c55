"""`vextract upgrade` says when what is installed no longer does."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("verl")


@pytest.mark.parametrize(
    ("arguments", "again"),
    [
        pytest.param(["--with", "lora"], True, marks=pytest.mark.thorough),
        (["--with", "mfu"], False),  # code alone
        pytest.param(["--engine", "vllm"], True, marks=pytest.mark.thorough),
        (["--to", "0.9.1"], True),
    ],
    ids=["lora", "mfu", "vllm", "0.9.1"],
)
def test_what_is_required_has_changed(run, project: Path, arguments: list[str], again: bool) -> None:
    planned = run("upgrade", project, *arguments, "--dry-run", code=0)
    assert ("`make setup` would install it" in planned.err) is again
    assert json.loads(run("upgrade", project, *arguments, "--dry-run", "--json").out)["setup"] is again
    done = run("upgrade", project, *arguments, code=0)
    assert ("run `make setup`" in done.err) is again
    once_more = run("upgrade", project, *(arguments if "--to" in arguments else ["--to", "0.6.1"]))
    assert "make setup" not in once_more.err


def test_a_lock_follows_the_features(run, project: Path) -> None:
    assert "peft==" not in (project / "requirements.lock").read_text()
    assert run("upgrade", project, "--with", "lora").code == 0
    assert "\npeft==" in (project / "requirements.lock").read_text()
    assert "\naccelerate==" in (project / "requirements.lock").read_text()  # which peft needs
    assert run("upgrade", project, "--without", "lora").code == 0
    assert "peft==" not in (project / "requirements.lock").read_text()
