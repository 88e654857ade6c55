"""A line that could call a method which was left out is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.pipeline.rewrite.header import methods_dropped, with_header
from extractor.usecases.verify import subject
from extractor.usecases.verify.left_out import check_left_out
from extractor.usecases.verify.report import Check, Status
from tests.verify.projects import small

ENGINE = """
import torch
class Base:
    def run(self):
        return {run}
class Engine(Base):
    ready = True
class Other:
    def go(self):
        return {go}
def start(engine, kind):
    return {start}
"""


def check(folder: Path, hook: str = "", **code: str) -> Check:
    """A file whose header says that Engine has no `stop`, and a hook."""
    text = ENGINE.format(**{"run": "1", "go": "1", "start": "1", **code})
    made = with_header(
        text,
        "\n",
        release="1.2.3",
        upstream_path="verl/engine.py",
        upstream_sha256="0" * 64,
        changes=methods_dropped(["Engine.stop"]),
    )
    files = {"toy/engine.py": made, "toy/hook.py": f"# vextract:hook\n{hook}\n"}
    return check_left_out(subject.read(small(folder / "toy", files, hooks=("toy/hook.py",))))


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ({"start": "engine.stop()"}, 14),
        ({"start": "getattr(engine, 'stop')"}, 14),
        ({"start": "getattr(engine, 'st' + kind)"}, 0),
        ({"start": "getattr(engine, 'sto' + kind)"}, 14),
        ({"start": "getattr(engine, f'{kind}top')"}, 14),
        ({"start": "partial(engine, stop=1)"}, 14),
        ({"start": "torch.stop(engine)"}, 0),
        ({"run": "self.stop()"}, 7),
        ({"run": "super().stop()"}, 7),
        ({"go": "self.stop()"}, 0),
        ({"go": "self.engine.stop()"}, 12),
    ],
)
def test_a_line_of_verls_code_that_names_it_is_a_failure(tmp_path: Path, code: dict[str, str], line: int) -> None:
    found = check(tmp_path, **code)
    assert found.status is (Status.FAILED if line else Status.OK), found
    if line:
        assert found.details[0] == f"toy/engine.py:{line}: `stop` may be Engine.stop, which toy/engine.py lacks"


def test_a_name_in_the_owners_own_code_is_reported(tmp_path: Path) -> None:
    found = check(tmp_path, "def play(env):\n    env.stop()")
    assert found.status is Status.REPORTED
    assert found.details[0].startswith("toy/hook.py:2: ")
    assert "vextract upgrade" in found.details[-1]


def test_a_method_that_the_owner_has_written_anew_is_there(tmp_path: Path) -> None:
    code = {"start": "engine.stop()\nEngine.stop = None\nclass Engine:\n    def stop(self): ..."}
    assert check(tmp_path, **code).status is Status.OK
