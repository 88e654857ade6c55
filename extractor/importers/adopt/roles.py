"""What in a project does the work of upstream's files that it does not have."""

from __future__ import annotations

from collections.abc import Collection

# By the beginning of upstream's path; of several that fit, the first counts. In the project's package, but for main.py.
_ROLES = (
    ("verl/trainer/ppo/ray_trainer.py", ("training/trainer.py", "training/run_loop.py")),
    ("verl/trainer/main_", ("main.py",)),
    ("verl/trainer/fsdp_sft_trainer.py", ("training/trainer.py",)),
    ("verl/workers/actor/", ("workers/actor.py",)),
    ("verl/workers/critic/", ("workers/critic.py",)),
    ("verl/workers/engine", ("workers/policy.py", "workers/actor.py")),
    ("verl/workers/fsdp_workers.py", ("workers/policy.py", "workers/actor.py")),
    ("verl/workers/rollout/", ("workers/rollout_engine.py", "training/rollouts.py")),
    ("verl/workers/reward", ("custom/reward_manager.py", "rewards/manager.py")),
    ("verl/experimental/reward", ("custom/reward_manager.py", "rewards/manager.py")),
    ("verl/experimental/agent_loop/", ("episodes/loop.py", "custom/env_wrapper.py")),
    ("verl/tools/", ("custom/env_wrapper.py",)),
    ("verl/interactions/", ("custom/env_wrapper.py",)),
    ("verl/utils/reward_score/", ("custom/reward_manager.py", "rewards/scoring.py")),
    ("verl/utils/dataset/", ("data/datasets.py",)),
    ("verl/utils/checkpoint/", ("training/checkpoint.py",)),
    ("verl/utils/tracking.py", ("tracking/run_tracker.py",)),
    ("verl/utils/logger/", ("tracking/run_tracker.py",)),
    ("verl/single_controller/", ("run/distributed.py",)),
)


def played_by(upstream_path: str, package: str, files: Collection[str]) -> tuple[str, ...]:
    """Return the files of a project that do what one of upstream's does; none where that is not known.

    Args:
        upstream_path: Upstream's.
        package: The project's.
        files: The paths of all its files.
    """
    names = next((names for start, names in _ROLES if upstream_path.startswith(start)), ())
    places = (name if name == "main.py" else f"{package}/{name}" for name in names)
    return tuple(place for place in places if place in files)
