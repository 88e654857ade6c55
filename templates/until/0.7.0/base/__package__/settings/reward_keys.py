# vextract:template - edit freely
"""What this release of verl calls the settings of the reward."""

from ..switches import OVERLAP, OVERLONG_PENALTY, REWARD_MODEL

MANAGER = "reward_model.reward_manager"
MANAGER_ARGUMENTS = "reward_model.reward_kwargs"
FUNCTION = "custom_reward_function"
if OVERLONG_PENALTY:
    OVERLONG = "reward_model.overlong_buffer"
if OVERLAP:
    IN_BACKGROUND = "reward_model.launch_reward_fn_async"
if REWARD_MODEL:
    JUDGE = "reward_model.enable"
    JUDGE_PATH = "reward_model.model.path"
    JUDGE_SETTINGS = {
        "input_tokenizer": "reward_model.model.input_tokenizer",
        "max_length": "reward_model.max_length",
        "micro_batch_size": "reward_model.micro_batch_size_per_gpu",
        "param_offload": "reward_model.model.fsdp_config.param_offload",
        "trust_remote_code": "reward_model.model.trust_remote_code",
    }
