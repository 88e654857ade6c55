"""All checks on real projects: nothing differs as they are emitted, and a change of one character is found."""

import shutil
from pathlib import Path

import pytest

from extractor.pipeline.source import Source
from extractor.usecases.verify import Check, CheckStatus, interpreter, run_verify
from tests.lifecycle.worlds import replace_once
from tests.project.support import Configuration, make
from tests.releases import ALL, NEWEST
from tests.verify.projects import mutate, with_what_computes

pytestmark = [pytest.mark.network, pytest.mark.slow]


def checks(report: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in report}


def equal(check: Check) -> int:
    """Return the number of cases that are equal."""
    return int(check.summary.split()[0].replace(",", ""))


def families(check: Check, verdict: str) -> set[str]:
    """Families of cases with a verdict."""
    return {line.split(": ")[1].partition("[")[0] for line in check.details if line.startswith(f"{verdict}: ")}


# Cases that are equal: fewer would mean that something is no longer compared.
LEAST = dict(zip(ALL, (900, 900, 900, 1000, 1200, 1200, 1300, 1500, 1600, 1600), strict=True))


CORE = "toy/vendored/algorithms/core_algos.py"
# What trains, or reads files: two thirds of the time.
SLOW = ("rl_dataset", "hf_rollout", "fsdp_utils", "engine", "engine.modes", "engine.steps")


@pytest.fixture
def _quick_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the slow cases out."""
    driver = Path(shutil.copytree(interpreter.DRIVER, tmp_path / "driver"))
    replace_once(driver / "table.py", "        families.append(", f"        name in {SLOW} or families.append(")
    monkeypatch.setattr(interpreter, "DRIVER", driver)


@pytest.mark.usefixtures("_quick_cases")
def test_a_wrong_character_is_found_and_the_rest_is_as_upstream(tmp_path: Path, python: str) -> None:
    made = make(Configuration(NEWEST[-1]), tmp_path / "project")
    mutate(made.root, CORE, "compute_grpo_outcome_advantage", "default", "2e-06")
    found = checks(run_verify(made.root, source=made.source, python=python))
    assert " ".join(found) == "imports ray methods hashes base importable parity coverage"
    assert {name for name, check in found.items() if not check.ok} == {"parity"}
    assert found["hashes"].details == (f"edited: {CORE} (vendored)",)
    declared = "declared.verl.trainer.ppo.core_algos"  # the number is a default
    assert families(found["parity"], "differs") == {"core_algos.advantage", "trainer_functions", declared}
    assert not families(found["parity"], "fails here only") | families(found["parity"], "fails on both")
    assert equal(found["parity"]) >= 1200
    (line,) = [line for line in found["coverage"].details if line.startswith(CORE)]
    assert "not covered" not in line


@pytest.mark.thorough
@pytest.mark.parametrize("release", ALL)
def test_a_project_computes_what_upstream_does(release: str, tmp_path: Path, python: str) -> None:
    made = make(with_what_computes(release), tmp_path / "project")
    said: list[str] = []
    report = run_verify(made.root, source=made.source, python=python, strict=True, progress=said.append)
    found = checks(report)
    assert not [(check.name, check.summary, check.details) for check in report if not check.ok]
    assert not families(found["parity"], "fails on both")
    for path in (
        "vendored/algorithms/core_algos.py",
        "vendored/protocol.py",
        "vendored/algorithms/metric_utils.py",
        "vendored/algorithms/trainer_functions.py",
    ):
        (line,) = [line for line in found["coverage"].details if line.startswith(f"toy/{path}")]
        assert "not covered" not in line
    assert said[-1] == "comparing numbers with upstream"
    assert equal(found["parity"]) >= LEAST[release]


@pytest.mark.thorough
def test_changes_are_found_and_named(copy_0_6_1: Path, verl_0_6_1: Source, python: str) -> None:
    """Several at once, since each run takes half a minute: each must show in its own family of cases."""
    reduce = "toy/vendored/utils/metric/utils.py"
    mutate(copy_0_6_1, CORE, "compute_grpo_outcome_advantage", "default", "2e-06")
    mutate(copy_0_6_1, "toy/vendored/utils/torch_functional.py", "masked_var", "constant", "2", -1)
    mutate(copy_0_6_1, "toy/vendored/workers/dp_critic.py", "compute_values", "operator", "/", -1)
    mutate(copy_0_6_1, "toy/vendored/data/rl_dataset.py", "__getitem__", "constant", "False", -1)
    text = (copy_0_6_1 / reduce).read_text(encoding="utf-8")
    (copy_0_6_1 / reduce).write_text(f"{text}\nraise ImportError('broken')\n", encoding="utf-8")

    report = run_verify(copy_0_6_1, source=verl_0_6_1, python=python)
    found = checks(report)
    assert found["hashes"].status is CheckStatus.REPORTED
    assert len(found["hashes"].details) == 5
    assert found["importable"].status is CheckStatus.FAILED
    assert any("toy.vendored.utils.metric.utils: ImportError: broken" in line for line in found["importable"].details)

    assert found["parity"].status is CheckStatus.FAILED
    differing = families(found["parity"], "differs")
    assert {"core_algos.advantage", "torch_functional.masked", "dp_critic", "rl_dataset"} <= differing
    assert families(found["parity"], "fails here only") == {
        "declared.verl.utils.metric.utils",
        "metric.reduce_metrics",
    }
    (named,) = [line for line in found["parity"].details if "core_algos.advantage[grpo/outcome]" in line]
    assert "elements differ, by at most" in named
    assert named.endswith(f"({CORE} is edited)")
    # What does not touch the changes stays equal.
    assert not differing & {"protocol.make", "core_algos.kl_penalty", "core_algos.agg_loss", "torch_functional.padding"}
