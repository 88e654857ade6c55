"""A dataset of an owner's, for runs that are stopped and go on."""

import random
from typing import Any

import numpy as np
import torch
from toy.custom.env_dataset import EnvDataset  # type: ignore[import-not-found]


class Learning(EnvDataset):  # type: ignore[misc]
    """Chooses prompts by what it saw, and draws from all global generators."""

    seen = 0

    def on_batch_end(self, batch: Any) -> None:
        """Upstream's name for what is called after each step."""
        self.seen += int(batch.batch["responses"].sum())
        print(f"learned {self.seen}")

    def __getitem__(self, index: int) -> Any:
        item = super().__getitem__((index + self.seen) % len(self))
        drawn = random.random() + float(np.random.rand()) + float(torch.rand(()))
        item["raw_prompt"] = [{"role": "user", "content": f"{int(drawn * 1e4)}="}]
        return item

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.seen = state["seen"]
