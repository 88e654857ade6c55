# vextract:template base/__package__/training/reward_managers.py - edit freely
"""From the config to a reward manager, as this release of verl makes one.

verl's own managers score one response each time, in coroutines (its "reward loop"). The owner's may be of that kind, or
score a whole batch as those of the releases before: `reward_fn(batch, return_dict=True)`. The trainer calls all of them
in this second way.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import torch
from omegaconf import OmegaConf

from ..rewards.scoring import ScoringError, own_line, source_of
from ..settings import reward_keys
from ..vendored.algorithms.reward import extract_reward, get_custom_reward_fn, load_reward_manager
from ..vendored.protocol import DataProto
from ..vendored.utils.import_utils import load_extern_object
from ..vendored.workers.reward_loop.registry import REWARD_MANAGER
from ..vendored.workers.reward_manager.registry import REWARD_MANAGER_REGISTRY

T = TypeVar("T")


def registered_managers() -> dict[str, Any]:
    """Return the reward managers by name: verl's own that this project has, and the owner's."""
    return {**REWARD_MANAGER, **REWARD_MANAGER_REGISTRY}


def manager_class(config: Any) -> Any:
    """Return the class of the manager that the config names."""
    section = config.reward.reward_manager
    if section.source == "importlib":
        return load_extern_object(module_path=section.module.path, object_name=section.name)
    return registered_managers()[OmegaConf.select(config, reward_keys.MANAGER)]


def load_manager(config: Any, tokenizer: Any, num_examine: int, arguments: dict[str, Any]) -> Any:
    """Return the manager that the config names: called with a batch and `return_dict`, it scores it.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        num_examine: how many responses of each data source it prints, if it scores batches.
        arguments: further ones of its constructor.
    """
    if hasattr(manager_class(config), "run_single"):
        return RewardLoop(config, tokenizer, arguments)
    return manager_class(config)(
        tokenizer=tokenizer,
        num_examine=num_examine,
        compute_score=get_custom_reward_fn(config),
        reward_fn_key=config.data.reward_fn_key,
        **arguments,
    )


class RewardLoop:
    """One of verl's own managers, and an event loop in a thread of its own that all responses of a batch are scored in.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        arguments: further ones of the manager's constructor.
    """

    def __init__(self, config: Any, tokenizer: Any, arguments: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="reward loop", daemon=True)
        self._thread.start()

        async def make() -> Any:
            return load_reward_manager(config, tokenizer, **arguments)

        try:
            self.manager = self._run(make())  # there: a manager keeps the event loop that it is created in
        except BaseException:
            self.close()
            raise

    def __call__(self, data: DataProto, return_dict: bool = False) -> Any:
        """Score a batch.

        Args:
            data: prompts (bs, prompt_length), responses (bs, response_length), attention_mask, and the columns that
                the manager reads. rm_scores (bs, response_length), where a reward model or environments have given
                them, are the reward.

        Returns:
            The scores, float32 of shape (bs, response_length), zero but for the last token of each response; with
            `return_dict`, {"reward_tensor": those, "reward_extra_info": {component: list of bs values}}.

        Raises:
            ScoringError: the manager raised; it names the sample.
        """
        if "rm_scores" in data.batch.keys():
            scores, extra = extract_reward(data)
        else:
            scores, extra = self._score(data)
        return {"reward_tensor": scores, "reward_extra_info": extra} if return_dict else scores

    def close(self) -> None:
        """End the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _score(self, data: DataProto) -> tuple[torch.Tensor, dict[str, list[Any]]]:
        results = self._run(self._all(data))
        prompt_length = data.batch["prompts"].size(1)
        lengths = data.batch["attention_mask"][:, prompt_length:].sum(dim=1)
        scores = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
        scores[torch.arange(len(data)), lengths - 1] = torch.tensor(
            [float(result["reward_score"]) for result in results], dtype=torch.float32
        )
        infos = [result.get("reward_extra_info", {}) for result in results]
        names = dict.fromkeys(name for info in infos for name in info)
        return scores, {name: [info.get(name) for info in infos] for name in names}

    async def _all(self, data: DataProto) -> list[dict[str, Any]]:
        tasks = [asyncio.ensure_future(self._one(data, row)) for row in range(len(data))]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _one(self, data: DataProto, row: int) -> dict[str, Any]:
        sample = data[row : row + 1]
        for info in sample.non_tensor_batch.get("extra_info", ()):
            sample.non_tensor_batch["extra_info"][0] = dict(info or {})  # which verl's managers add to
        try:
            result: dict[str, Any] = await self.manager.run_single(sample)
            return result
        except Exception as error:
            where = own_line(error) or source_of(self.manager.compute_score)
            raise ScoringError(f"the reward raised {type(error).__name__}: {error}", where, row) from error

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
