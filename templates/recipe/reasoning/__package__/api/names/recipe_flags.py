# vextract:template - edit freely
"""Flags of train_grpo and train_ppo that only this project's recipe has."""

from dataclasses import dataclass

from ...errors import ConfigError
from .short_names import MODEL, ShortNames, short

SIZES = ("0.5B", "1.5B", "3B", "7B", "14B", "32B", "72B")
RANK = 32  # of an adapter, and its alpha


def _model(size: str) -> str:
    if size.upper() not in SIZES:
        raise ConfigError(f"there is no Qwen2.5 of size {size}", f"choose one of: {', '.join(SIZES)}; or --model-path")
    return f"Qwen/Qwen2.5-{size.upper()}-Instruct"


@dataclass(kw_only=True)
class RecipeFlags(ShortNames):
    """Further flags, as `api/names/short_names.py` has them."""

    model_size: str | None = short("Qwen2.5-Instruct of this size, such as 1.5B", f"{MODEL}.path", convert=_model)
    use_lora: bool | None = short(
        f"train an adapter of rank {RANK}",
        follow=[f"{MODEL}.lora_rank", f"{MODEL}.lora_alpha"],
        convert=lambda wanted: RANK,
    )
    disable_wandb: bool | None = short(
        "log to the terminal and to TensorBoard only",
        "trainer.logger",
        convert=lambda wanted: ["console", "tensorboard"],
    )
    num_examine: int | None = short("samples of each step in debug_logs/", "local.reward.debug_samples")
    hf_token: str | None = short("for models and data on the hub that ask for one; or set HF_TOKEN")

    def environment(self) -> dict[str, str]:
        """Return what to set in the environment."""
        return {} if self.hf_token is None else {"HF_TOKEN": self.hf_token}
