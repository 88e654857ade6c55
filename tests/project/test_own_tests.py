"""A project's own tests pass, and what `more/` asks of the same modules, which is run beside them in a project."""

import shutil
from pathlib import Path

import pytest

from tests.project.running import check_forked
from tests.project.support import Configuration, Maker, copy_of
from tests.releases import NEWEST

pytestmark = pytest.mark.slow

MORE = {f"test_more_{file.name}": file for file in sorted(Path(__file__).with_name("more").glob("*.py"))}
FEATURES = (
    "dataset_classes",
    "episodes",
    "logits_in_pieces",
    "overlong_penalty",
    "prime",
    "provenance",
    "reward_logs",
    "watch",
)
OLDER, RICH = Configuration("0.6.1", everything=True), Configuration(NEWEST[-1], everything=True)


@pytest.mark.parametrize(
    ("configuration", "files"),
    [
        pytest.param(Configuration(NEWEST[-1]), [], id="as it comes"),
        # Episodes as the trainer sees them, PRIME by numbers worked out by hand, distillation by what its teacher says.
        pytest.param(
            Configuration(NEWEST[-1], features=FEATURES),
            [*MORE, "test_episodes.py", "test_process_rewards.py", "test_provenance.py"],
            id="more",
        ),
        pytest.param(RICH, ["test_distillation.py"], marks=pytest.mark.thorough, id="distillation"),
        pytest.param(OLDER, [], marks=pytest.mark.thorough, id="older"),
        pytest.param(OLDER, [*MORE], marks=pytest.mark.thorough, id="older, more"),
    ],
)
def test_the_tests_of_a_project_pass(
    made: Maker, tmp_path: Path, configuration: Configuration, files: list[str]
) -> None:
    root = copy_of(made(configuration), tmp_path)
    for name in MORE.keys() & {*files}:
        shutil.copyfile(MORE[name], root / "tests" / name)
    done = check_forked(root, "-m", "pytest", "-q", "-x", *(f"tests/{name}" for name in files))
    assert " passed" in done.stdout or "100%" in done.stdout
