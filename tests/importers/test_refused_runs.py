"""Runs of verl's recipe for PRIME are refused, as are names of forks that change what is learned."""

from pathlib import Path

from tests.importers.conftest import put, vextract

LAUNCH = "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"
NEITHER = "a name that no supported release of verl has is not read"
REFUSED = {
    **{
        f"python3 {program} algorithm.adv_estimator=rloo": (
            "run.sh:1: verl's recipe for PRIME is not read",
            "`vextract new myproj --algorithm prime` makes a project for it",
        )
        for program in ("-m recipe.prime.main_prime", "recipe/prime/main_prime.py")
    },
    f"{LAUNCH} reward_model.rm_type=prime reward_model.rm_coef=7": (f"rm_type=prime: {NEITHER}", ""),
    f"{LAUNCH} actor_rollout_ref.actor.tis_imp_ratio_cap=2": (f"tis_imp_ratio_cap=2: {NEITHER}", "say in its place"),
    f"{LAUNCH} algorithm.rollout_is=true algorithm.rollout_is_threshold=2.0": (
        f"rollout_is_threshold=2.0: {NEITHER}",
        "say in its place",
    ),
}


def test_what_changes_what_is_learned_is_refused_with_the_way_round(tmp_path: Path) -> None:
    for launch, (said, hint) in REFUSED.items():
        script = put(tmp_path, {"run.sh": f"{launch}\n"}) / "run.sh"
        refused = vextract("new", tmp_path / "own", "--from-verl-run", script, "--keep-unknown")
        assert (refused.code, said in refused.err, hint in refused.err) == (2, True, True), refused.err
        assert ("say in its place" in refused.err) is hint.startswith("say")
