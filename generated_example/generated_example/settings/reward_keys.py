# vextract:template base/__package__/settings/reward_keys.py - edit freely
"""What this release of verl calls the settings of the reward."""

MANAGER = "reward.reward_manager.name"
MANAGER_ARGUMENTS = "reward.reward_kwargs"
FUNCTION = "reward.custom_reward_function"
