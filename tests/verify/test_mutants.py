"""Changes that cases once did not see: each is now found by one, in the release that has the code."""

import pytest

from benchmarks.mutants import chosen, measuring

CORE, ENGINE = "verl.trainer.ppo.core_algos", "verl.workers.engine.fsdp.transformer_impl"
ACTOR, CRITIC = "verl.workers.actor.dp_actor", "verl.workers.critic.dp_critic"
DATASET, PROTOCOL = "verl.utils.dataset.rl_dataset:RLHFDataset", "verl.protocol:DataProto"
# Function, kind, what becomes of it, and which such place it is: as in benchmarks/by_hand.toml.
ANYWHERE = (
    (f"{CORE}:compute_grpo_outcome_advantage", "constant", "2", 1),  # a group of two
    (f"{PROTOCOL}.select", "default", "True", 1),
    (f"{PROTOCOL}.repeat", "default", "False", 1),
    ("verl.utils.torch_functional:postprocess_data", "constant", "3", 2),  # the split of "middle"
)
SEEN = {
    "0.9.1": (
        *ANYWHERE,
        (f"{ENGINE}:FSDPEngine.optimizer_step", "condition", "False", 7),  # a step with infinite gradients
        (f"{ENGINE}:FSDPEngine.optimizer_step", "statement", "pass", 8),
        (f"{ENGINE}:EngineEvalModeCtx.__enter__", "call", "train", 1),
        (f"{ENGINE}:EngineTrainModeCtx.__enter__", "call", "eval", 1),
        (f"{ENGINE}:EngineTrainModeCtx.__exit__", "statement", "pass", 2),  # gradients that stay
        ("verl.workers.engine.base:BaseEngine.train_batch", "statement", "pass", 2),
        ("verl.workers.utils.losses:ppo_loss", "statement", "pass", 5),  # loss_scale_factor
        (f"{DATASET}.maybe_filter_out_long_prompts", "operator", "<", 1),  # exactly the largest length
        ("verl.trainer.ppo.reward:_call_with_kwargs", "operator", "extra_kwargs, **kwargs", 1),
        (f"{CORE}:compute_policy_loss_sapo", "operator", ">=", 1),
    ),
    "0.6.1": (
        *ANYWHERE,
        (f"{ACTOR}:DataParallelPPOActor._optimizer_step", "condition", "False", 7),
        (f"{ACTOR}:DataParallelPPOActor._optimizer_step", "statement", "pass", 2),
        (f"{ACTOR}:DataParallelPPOActor.compute_log_prob", "call", "train", 1),
        (f"{ACTOR}:DataParallelPPOActor.update_policy", "call", "eval", 1),
        (f"{ACTOR}:DataParallelPPOActor.update_policy", "statement", "pass", 9),
        (f"{ACTOR}:DataParallelPPOActor.update_policy", "statement", "pass", 51),
        (f"{CRITIC}:DataParallelPPOCritic.compute_values", "call", "train", 1),
        (f"{DATASET}.maybe_filter_out_long_prompts", "operator", "<", 1),
        (f"{DATASET}.__getitem__", "operator", "*", 1),
    ),
}


@pytest.mark.thorough
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("release", list(SEEN))
def test_what_was_not_seen_is_found(release: str) -> None:
    with measuring(release, all_features=True) as (mutants, ask):
        survivors = [
            f"{mutant.mutation.function}\n{mutant.diff()}"
            for mutant in chosen(mutants, SEEN[release])
            if not ask(mutant)
        ]
    assert not survivors, "\n".join(survivors)
