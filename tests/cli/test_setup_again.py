"""`vextract upgrade` says when what is installed no longer does, and the project's lock follows."""

import json
from pathlib import Path

import pytest


@pytest.mark.usefixtures("verl")
def test_what_is_required_has_changed(run, project: Path) -> None:
    planned = run("upgrade", project, "--with", "lora", "--dry-run", code=0)
    assert "`make setup` would install it" in planned.err
    assert json.loads(run("upgrade", project, "--with", "mfu", "--dry-run", "--json", code=0).out)["setup"] is False
    for arguments, again, locked in (
        (["--with", "mfu"], False, False),  # code alone
        (["--with", "lora"], True, True),
        (["--without", "lora"], True, False),
        (["--to", "0.6.1"], False, False),
        (["--to", "0.9.1"], True, False),
    ):
        done = run("upgrade", project, *arguments, code=0)
        assert ("run `make setup`" in done.err) is again, arguments
        pins = (project / "requirements.lock").read_text()
        for name in ("peft", "accelerate"):  # which peft needs
            assert (f"\n{name}==" in pins) is locked, arguments
