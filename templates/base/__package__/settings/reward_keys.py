# vextract:template - edit freely
"""What this release of verl calls the settings of the reward."""

from ..switches import OVERLAP, OVERLONG_PENALTY, REWARD_MODEL

MANAGER = "reward.reward_manager.name"
MANAGER_ARGUMENTS = "reward.reward_kwargs"
FUNCTION = "reward.custom_reward_function"
if OVERLONG_PENALTY:
    OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
if OVERLAP:
    IN_BACKGROUND = "local.reward.in_background"
if REWARD_MODEL:
    JUDGE = "reward.reward_model.enable"
    JUDGE_PATH = "reward.reward_model.model_path"
    JUDGE_SETTINGS = {
        "input_tokenizer": "local.reward_model.input_tokenizer",
        "max_length": "local.reward_model.max_length",
        "micro_batch_size": "local.reward_model.micro_batch_size_per_gpu",
        "param_offload": "local.reward_model.param_offload",
        "trust_remote_code": "local.reward_model.trust_remote_code",
    }
