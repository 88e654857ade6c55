# vextract:template - edit freely
"""The flags of train_sft."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .short_names import ACTOR, MODEL, ShortNames, short


def _files(value: Sequence[str]) -> Any:
    return value[0] if len(value) == 1 else list(value)


@dataclass(kw_only=True)
class SupervisedFlags(ShortNames):
    """Holds what a command line says by flags."""

    chooses_preset: ClassVar[bool] = False

    model_path: str | None = short("a model's directory, or its name on the hub", f"{MODEL}.path")
    train_files: list[str] | None = short("demonstrations; repeat it for several", "data.train_files", convert=_files)
    val_files: list[str] | None = short("those for validation", "data.val_files", convert=_files)
    messages_key: str | None = short("the column with conversations", "data.messages_key")
    prompt_key: str | None = short("or the column with prompts", "data.prompt_key")
    response_key: str | None = short("and the one with responses", "data.response_key")
    max_length: int | None = short("the most tokens of a demonstration", "data.max_length")
    truncation: str | None = short("of longer ones: error, right or left", "data.truncation")
    total_epochs: int | None = short("passes over the demonstrations", "trainer.total_epochs")
    max_steps: int | None = short("steps to train for, whatever the epochs", "trainer.total_training_steps")
    batch_size: int | None = short("demonstrations per step", "data.train_batch_size")
    micro_batch_size: int | None = short("of these in a pass on each process", f"{ACTOR}.ppo_micro_batch_size_per_gpu")
    learning_rate: float | None = short("at its highest", f"{ACTOR}.optim.lr")
    lora_rank: int | None = short("of an adapter that is trained in place of the weights", f"{MODEL}.lora_rank")
    seed: int | None = short("of the order of demonstrations", "local.seed", follow=["data.seed"])
    output_dir: str | None = short("where the run's records and checkpoints go", "trainer.default_local_dir")
    save_steps: int | None = short("save every so many steps", "trainer.save_freq")
    eval_steps: int | None = short("validate every so many steps", "trainer.test_freq")
    experiment_name: str | None = short("of the run", "trainer.experiment_name")

    def follows(self, stated: Container[str]) -> dict[str, Any]:
        """Have epochs count where they are given."""
        return {} if self.total_epochs is None else {"trainer.total_training_steps": None}
