"""Every preset of every release trains, by the functions that it is named after."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from extractor.values import releases
from tests.project.running import check_forked
from tests.project.support import PACKAGE, Configuration, make
from tests.releases import newest_release

pytestmark = pytest.mark.slow
DRIVER = Path(__file__).with_name("driver.py")

# Preset -> registered estimator and policy loss. GRPO and GAE are called by name, which the registry does not see.
FUNCTIONS: dict[str, tuple[list[str], list[str]]] = {
    "cispo": ([], ["cispo"]),
    "clip_cov": ([], ["clip_cov"]),
    "dapo": ([], ["vanilla"]),
    "distill": ([], ["vanilla"]),
    "dppo_kl": ([], ["dppo_kl"]),
    "dppo_tv": ([], ["dppo_tv"]),
    "dr_grpo": ([], ["vanilla"]),
    "dro": ([], ["dro"]),
    "gdpo": (["gdpo"], ["vanilla"]),
    "gmpo": ([], ["geo_mean"]),
    "gpg": (["gpg"], ["gpg"]),
    "grpo": ([], ["vanilla"]),
    "grpo_passk": (["grpo_passk"], ["vanilla"]),
    "gspo": ([], ["gspo"]),
    "kl_cov": ([], ["kl_cov"]),
    "opo": (["opo"], ["vanilla"]),
    "optimal_token_baseline": (["optimal_token_baseline"], ["vanilla"]),
    "ppo": ([], ["vanilla"]),
    "prime": (["rloo"], ["vanilla"]),
    "reinforce_plus_plus": (["reinforce_plus_plus"], ["vanilla"]),
    "reinforce_plus_plus_baseline": (["reinforce_plus_plus_baseline"], ["vanilla"]),
    "remax": (["remax"], ["vanilla"]),
    "rloo": (["rloo"], ["vanilla"]),
    "sapo": ([], ["sapo"]),
}


@pytest.fixture(scope="module")
def found(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What a step of each preset gave, by release; run once for each."""
    known: dict[str, dict[str, Any]] = {}

    def run(release: str) -> dict[str, Any]:
        if release not in known:
            root = tmp_path_factory.mktemp("presets") / release
            # With a critic, an implicit reward model and a teacher, so that one project has room for every preset.
            made = make(Configuration(release, algorithm="ppo", features=("distillation", "prime")), root)
            check_forked(root, str(DRIVER), PACKAGE, *made.manifest.algorithms)
            known[release] = json.loads((root / "found.json").read_text(encoding="utf-8"))
        return known[release]

    return run


@pytest.mark.parametrize("release", newest_release())
def test_every_preset_trains_by_its_own_functions(found: Callable[[str], dict[str, Any]], release: str) -> None:
    results = found(release)
    assert sorted(results) == sorted(releases.load(release).algorithms)
    for preset, result in results.items():
        assert result["code"] == 0, preset
        assert [row["step"] for row in result["rows"]] == [1]
        for row in result["rows"]:
            assert [name for name, value in row.items() if value is None or not math.isfinite(value)] == [], preset
        assert any(row["actor/grad_norm"] > 0 for row in result["rows"]), preset
        estimators, losses = FUNCTIONS[preset]
        assert result["estimators"] == estimators, preset
        # Up to 0.5.0 the actor calls this loss without the registry.
        in_the_actor = release in ("0.4.0", "0.4.1", "0.5.0") and losses == ["vanilla"]
        assert result["losses"] == ([] if in_the_actor else losses), preset


@pytest.mark.parametrize("release", newest_release())
def test_what_only_one_preset_does_shows_in_its_metrics(found: Callable[[str], dict[str, Any]], release: str) -> None:
    results = found(release)
    assert all(row["train/num_gen_batches"] >= 1 for row in results["dapo"]["rows"])
    assert any(0 < row["train/kept_groups"] < 1 for row in results["dapo"]["rows"])
    assert "train/num_gen_batches" not in results["grpo"]["rows"][0]
    assert "timing_s/gen_max" in results["remax"]["rows"][0]
    assert "critic/vf_loss" in results["ppo"]["rows"][0]
    assert "critic/vf_loss" not in results["rloo"]["rows"][0]
    assert [name for name in results if "timing_s/teacher" in results[name]["rows"][0]] == ["distill"] * (
        "distill" in results
    )
    assert 0 <= results["prime"]["rows"][0]["reward_model/dpo_acc_before"] <= 1
    assert not [name for name in results["rloo"]["rows"][0] if name.startswith("reward_model/")]
