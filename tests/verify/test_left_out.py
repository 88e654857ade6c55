"""A line that could call a method which was left out is found."""

from pathlib import Path

from extractor.pipeline.rewrite.changes import describe_dropped_methods
from extractor.usecases.verify import project_files
from extractor.usecases.verify.dropped_methods import check_dropped_methods
from extractor.usecases.verify.report import Check, CheckStatus
from tests.rewrite.support import with_former_header
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


def check(folder: Path, hook: str = "", *, former: bool = False, test: str = "", **code: str) -> Check:
    """A file of which the lock, or formerly its header, says that Engine has no `stop`, a hook and a test."""
    text = ENGINE.format(**{"run": "1", "go": "1", "start": "1", **code})
    said = describe_dropped_methods(["Engine.stop"])
    made = with_former_header(text, "1.2.3", "verl/engine.py", said) if former else text
    files = {"toy/engine.py": made, "toy/hook.py": f"# vextract:hook\n{hook}\n"}
    files["tests/test_engine.py"] = f"# vextract:template\n{test}\n"
    changes = {} if former else {"toy/engine.py": said}
    return check_dropped_methods(
        project_files.read_project(small(folder / "toy", files, hooks=("toy/hook.py",), changes=changes))
    )


LINES = (
    ({"start": "engine.stop()"}, 11),
    ({"start": "getattr(engine, 'stop')"}, 11),
    ({"start": "getattr(engine, 'st' + kind)"}, 0),
    ({"start": "getattr(engine, f'{kind}top')"}, 11),
    ({"start": "torch.stop(engine)"}, 0),
    ({"run": "self.stop()"}, 4),
    ({"go": "self.stop()"}, 0),
    ({"go": "self.engine.stop()"}, 9),
    # A method that the owner has written anew is there.
    ({"start": "engine.stop()\nEngine.stop = None\nclass Engine:\n    def stop(self): ..."}, 0),
)


def test_a_line_of_verls_code_that_names_it_is_a_failure(tmp_path: Path) -> None:
    for number, (code, line) in enumerate(LINES):
        found = check(tmp_path / str(number), **code)
        assert found.status is (CheckStatus.FAILED if line else CheckStatus.OK), code
        said = f"toy/engine.py:{line}: `stop` may be Engine.stop, which toy/engine.py lacks"
        assert not line or found.details[0] == said
    found = check(tmp_path / "former", start="engine.stop()", former=True)  # whose header says it
    assert found.details[0] == "toy/engine.py:14: `stop` may be Engine.stop, which toy/engine.py lacks"


def test_names_in_the_owners_own_code_and_in_tests(tmp_path: Path) -> None:
    found = check(tmp_path / "hook", "def play(env):\n    env.stop()")
    assert found.status is CheckStatus.REPORTED
    assert found.details[0].startswith("toy/hook.py:2: ")
    assert "vextract upgrade" in found.details[-1]
    for line, status in (
        ("run(folder / 'stop')", "ok"),
        ("engine.stop()", "failed"),
        ("patch.setattr(engine, 'stop', 1)", "failed"),
    ):
        assert check(tmp_path / line.replace("/", ""), test=line).status.value == status, line
