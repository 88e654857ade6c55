"""Each tracker with its real package, in an environment of its own: a project's tests read back what was written."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from extractor.importers.runs import settings
from tests.project.running import environment, forked
from tests.project.support import PACKAGE, Configuration, Maker, copy_of
from tests.releases import NEWEST

pytestmark = pytest.mark.slow
TABLE = f"import json; from {PACKAGE}.tracking.run_tracker import LOGGERS, TRACKER_CLASSES; "


def test_a_converted_script_keeps_the_loggers_that_there_are(made: Maker) -> None:
    done = forked(
        made(Configuration(NEWEST[-1], "hf", everything=True)).root, "-c", TABLE + "print(json.dumps(LOGGERS))"
    )
    assert sorted(json.loads(done.stdout)) == sorted(settings._LOGGERS)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mlflow", "swanlab", "trackio", "wandb"])
def test_what_a_tracker_wrote_is_read_back(made: Maker, tmp_path: Path, name: str) -> None:
    root = copy_of(made(Configuration(NEWEST[-1], "hf", everything=True)), tmp_path)
    code = TABLE + f"print(TRACKER_CLASSES[{name!r}].requirement)"
    requirement = forked(root, "-c", code).stdout.strip()
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    own = str(venv / "bin" / "python")
    subprocess.run([sys.executable, "-m", "pip", "--python", own, "install", "-q", requirement], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "rest.pth").write_text(sysconfig.get_path("purelib"))  # torch and the others, after its own packages
    command = [own, "-m", "pytest", "-q", "tests/test_services.py", "-k", f"test_{name}", "-rs"]
    done = subprocess.run(command, cwd=root, env=environment(root), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "SKIPPED" not in done.stdout
