"""Every advantage estimator that can be named runs, or is refused before anything is loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.running import forked
from tests.project.support import PACKAGE, Configuration, Made
from tests.releases import newest_release

pytestmark = pytest.mark.slow
# Theirs is not the signature that compute_advantage of the same release calls.
REFUSED = {"0.7.1": ["optimal_token_baseline", "tir_optimal_token_baseline"]}
DRIVER = f"""
import json
from pathlib import Path
from {PACKAGE} import ConfigError, load_config
from {PACKAGE}.settings.checks import check_config
from {PACKAGE}.settings.group_size import IN_PAIRS, _advantages
from {PACKAGE}.training.hook_calls import import_hooks
from {PACKAGE}.training.registries import ADV_ESTIMATOR_REGISTRY
import_hooks()
found = {{}}
for name in [str(getattr(name, "value", name)) for name in ADV_ESTIMATOR_REGISTRY]:
    config = load_config("preset=gdpo" if name == "gdpo" else f"algorithm.adv_estimator={{name}}")
    try:
        if name != "gae":  # the project is without a critic
            check_config(config, 1)
        advantages = _advantages(config.algorithm, IN_PAIRS)
        found[name] = [list(advantages.shape), bool(advantages.isfinite().all()), bool(advantages.any())]
    except ConfigError as error:
        found[name] = str(error)
Path("found.json").write_text(json.dumps(found))
"""


@pytest.mark.parametrize("release", newest_release("0.7.1"))
def test_every_estimator_runs_or_is_refused(
    made: Callable[[Configuration], Made], release: str, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(made(Configuration(release, "hf")).root, tmp_path / "project"))
    (root / "estimators.py").write_text(DRIVER, encoding="utf-8")
    done = forked(root, "estimators.py")
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((root / "found.json").read_text(encoding="utf-8"))
    refused = {name: said for name, said in found.items() if isinstance(said, str)}
    assert sorted(refused) == REFUSED.get(release, [])
    assert all("does not run in this release" in said and "\nhint: " in said for said in refused.values())
    runs = {name: said for name, said in found.items() if name not in refused}
    assert len(runs) >= 8
    assert {name: said for name, said in runs.items() if said != [[4, 1], True, True]} == {}
