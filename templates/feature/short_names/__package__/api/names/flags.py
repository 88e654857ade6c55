# vextract:template - edit freely
"""The flags of train_grpo and train_ppo: TrainingConfig's names, those of what is trained on, and the recipe's."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from ...settings import reward_keys
from .recipe_flags import RecipeFlags
from .short_names import MODEL, ROLLOUT, TrainingConfig, short


def _files(value: Sequence[str]) -> Any:
    return value[0] if len(value) == 1 else list(value)


@dataclass(kw_only=True)
class Flags(RecipeFlags, TrainingConfig):
    """Holds what a command line says by flags."""

    model_path: str | None = short("a model's directory, or its name on the hub", f"{MODEL}.path")
    train_files: list[str] | None = short("prompts; repeat it for several", "data.train_files", convert=_files)
    val_files: list[str] | None = short(
        "those for validation; none of them: no validation", "data.val_files", convert=_files
    )
    reward_function_path: str | None = short("a Python file", f"{reward_keys.FUNCTION}.path")
    reward_function_name: str | None = short("the function in it", f"{reward_keys.FUNCTION}.name")
    rollout_engine: str | None = short("what writes the responses", f"{ROLLOUT}.name")
    experiment_name: str | None = short("of the run", "trainer.experiment_name")

    def follows(self, stated: Container[str]) -> dict[str, Any]:
        """Leave validation out where there are prompts for training and none for it."""
        found = super().follows(stated)
        if not self.train_files or any(key in stated for key in ("data.val_files", "trainer.test_freq")):
            return found
        files = _files(self.train_files)
        return {**found, "data.val_files": files, "trainer.test_freq": -1, "trainer.val_before_train": False}
