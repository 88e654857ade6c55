"""Every preset of every release trains, by the functions that it is named after."""

import json
import math
from pathlib import Path

import pytest

from extractor.values import releases
from tests.project.running import check_forked
from tests.project.support import PACKAGE, Configuration, make
from tests.releases import newest_release

pytestmark = pytest.mark.slow
DRIVER = Path(__file__).with_name("driver.py")

# Preset -> registered estimator and policy loss, if not GRPO's or GAE's, which are called by name, and "vanilla".
FUNCTIONS: dict[str, tuple[list[str], str]] = {
    **{name: ([], name) for name in ("cispo", "clip_cov", "dppo_kl", "dppo_tv", "dro", "gspo", "kl_cov", "sapo")},
    **{name: ([], "vanilla") for name in ("dapo", "distill", "dr_grpo", "grpo", "ppo")},
    **{name: ([name], "vanilla") for name in ("gdpo", "grpo_passk", "opo", "optimal_token_baseline", "remax", "rloo")},
    **{name: ([name], "vanilla") for name in ("reinforce_plus_plus", "reinforce_plus_plus_baseline")},
    "gmpo": ([], "geo_mean"),
    "gpg": (["gpg"], "gpg"),
    "prime": (["rloo"], "vanilla"),
}


@pytest.mark.parametrize("release", newest_release())
def test_every_preset_trains_by_its_own_functions(verl: None, tmp_path: Path, release: str) -> None:
    """With a critic, an implicit reward model and a teacher, so that one project has room for every preset."""
    made = make(Configuration(release, algorithm="ppo", features=("distillation", "prime")), tmp_path / "project")
    check_forked(made.root, str(DRIVER), PACKAGE, *made.manifest.algorithms)
    results = json.loads((made.root / "found.json").read_text(encoding="utf-8"))
    assert sorted(results) == sorted(releases.load(release).algorithms)
    for preset, result in results.items():
        (row,) = result["rows"]
        assert (result["code"], row["step"]) == (0, 1), preset
        assert [name for name, value in row.items() if value is None or not math.isfinite(value)] == [], preset
        assert row["actor/grad_norm"] > 0, preset
        estimators, loss = FUNCTIONS[preset]
        assert result["estimators"] == estimators, preset
        # Up to 0.5.0 the actor calls this loss without the registry.
        in_the_actor = release in ("0.4.0", "0.4.1", "0.5.0") and loss == "vanilla"
        assert result["losses"] == ([] if in_the_actor else [loss]), preset
    rows = {preset: result["rows"][0] for preset, result in results.items()}
    assert rows["dapo"]["train/num_gen_batches"] >= 1
    assert 0 < rows["dapo"]["train/kept_groups"] < 1
    for name, presets in (  # what only one preset does shows in its metrics
        ("train/num_gen_batches", {"dapo", "prime"}),
        ("timing_s/gen_max", {"remax"}),
        ("critic/vf_loss", {"ppo"}),
        ("timing_s/teacher", {"distill"} & rows.keys()),
        ("reward_model/dpo_acc_before", {"prime"}),
    ):
        assert {preset for preset, row in rows.items() if name in row} == presets, name
