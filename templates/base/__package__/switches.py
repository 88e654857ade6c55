# vextract:template
"""The features of a project and its engine, as constants: `vextract new` folds them away, no project has this file.

`if PLOTS:` is gone from a project without plots; in one that has them, its body stands there without the `if`.
"""

AGENTS: bool = True
CRITIC: bool = True
DATASET_CLASSES: bool = True
DISTILLATION: bool = True
DYNAMIC_BSZ: bool = True
DYNAMIC_SAMPLING: bool = True
EARLY_STOPPING: bool = True
EPISODES: bool = True
EXPORT_MODEL: bool = True
FORMER_NAMES: bool = True
FREED_MEMORY: bool = True
GIVEN_OBJECTS: bool = True
HF: bool = True
HOOK_CHECKS: bool = True
HUB: bool = True
LOGITS_IN_PIECES: bool = True
LORA: bool = True
LOSS_COLUMNS: bool = True
MFU: bool = True
MULTIMODAL: bool = True
OVERLONG_PENALTY: bool = True
OVERLAP: bool = True
PARTS: bool = True
PEER_WATCH: bool = True
OFFLOAD: bool = True
PLACEMENT: bool = True
PLOTS: bool = True
PRIME: bool = True
PROVENANCE: bool = True
QLORA: bool = True
RESCUE: bool = True
REWARD_FORMS: bool = True
REWARD_LOGS: bool = True
REWARD_MANAGERS: bool = True
REWARD_MODEL: bool = True
REWARD_PROCESSES: bool = True
REWARD_RULES: bool = True
ROLLOUT_CORRECTION: bool = True
SANDBOX: bool = True
SFT: bool = True
SHORT_NAMES: bool = True
SHARDED_CHECKPOINTS: bool = True
SHARED_PASSES: bool = True
SPECIAL_TOKENS: bool = True
STEP_HOOKS: bool = True
SWEEP: bool = True
TOOLS: bool = True
TOOLS_MCP: bool = True
TRACKERS: bool = True
VERL_CHECKPOINTS: bool = True
WATCH: bool = True
