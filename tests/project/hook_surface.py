"""What the hooks in custom/ of a project, and the tests that came with them, may import from its package.

Hooks are written once and never again, so every project has these names in these modules, whichever release of verl it
is made for and whichever it is taken to. Other names may go with an upgrade.
"""

# Module below the package -> names in it.
SURFACE: dict[str, tuple[str, ...]] = {
    "data.datasets": ("DataError",),
    "data.dataloading": ("encoded",),
    "data.rows": ("RowsDataset", "rows_of_environment"),
    "vendored.data.rl_dataset": ("RLHFDataset",),
    "data.toy": ("ensure_toy_model",),
    "vendored.protocol": ("DataProto",),
    "rewards.scoring": ("resolved",),
    "rewards.manager": ("GIVEN", "TextRewardManager"),
    "vendored.algorithms.core_algos": (
        "agg_loss",
        "get_adv_estimator_fn",
        "get_policy_loss_fn",
        "register_adv_est",
        "register_policy_loss",
    ),
    "registries": (
        "ADV_ESTIMATOR_REGISTRY",
        "get_adv_estimator_fn",
        "get_policy_loss_fn",
        "register_adv_est",
        "register_policy_loss",
    ),
    "vendored.utils.torch_functional": ("masked_mean",),
    "vendored.workers.reward_manager.registry": ("register",),
}

# The same for projects of a recipe that brings problems of its own; a project keeps its recipe and what that needs.
OF_RECIPES: dict[str, tuple[str, ...]] = {
    "data.hub": ("load_rows", "rows_unless_sample"),
    "data.problems": ("TRAIN", "VAL"),
    "rewards.components": ("ComponentError", "WeightedComponents"),
    "rewards.text": (
        "final_answer",
        "has_form",
        "length_share",
        "repeated_share",
        "tagged",
        "tags_once",
        "tags_share",
    ),
    "rewards.verified_math": ("same_answer",),
}
