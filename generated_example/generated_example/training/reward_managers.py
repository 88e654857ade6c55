# vextract:template base/__package__/training/reward_managers.py - edit freely
"""From the config to a reward manager, as this release of verl makes one.

verl's own managers score one response each time, in coroutines (its "reward loop"). The owner's may be of that kind, or
score a whole batch as those of the releases before: `reward_fn(batch, return_dict=True)`. The trainer calls all of them
in this second way.
"""

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import OmegaConf

from ..rewards.calls import importable, own_line, source_of
from ..rewards.loop_thread import LoopThread
from ..rewards.main_thread import CallsHere, needs_main_thread
from ..rewards.scoring import ScoringError
from ..settings import reward_keys
from ..vendored.algorithms.reward import extract_reward, get_custom_reward_fn, load_reward_manager
from ..vendored.protocol import DataProto
from ..vendored.utils.import_utils import load_extern_object
from ..vendored.workers.reward_loop import registry
from ..vendored.workers.reward_loop.registry import REWARD_MANAGER
from ..vendored.workers.reward_manager.registry import REWARD_MANAGER_REGISTRY
from .batches import objects

# Where verl's own managers are.
VERLS = str(registry.__package__)


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
        compute_score=importable(get_custom_reward_fn(config)),
        reward_fn_key=config.data.reward_fn_key,
        **arguments,
    )


@dataclass(frozen=True)
class Begun:
    """A response whose score is under way.

    Attributes:
        tokens: of the response, which the score is of.
        pending: what the manager will return.
    """

    tokens: list[int]
    pending: "Future[dict[str, Any]]"


class RewardLoop:
    """One of verl's own managers, and an event loop in a thread of its own that all responses of a batch are scored in.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        arguments: further ones of the manager's constructor.
    """

    def __init__(self, config: Any, tokenizer: Any, arguments: dict[str, Any]) -> None:
        self._loop = LoopThread("reward loop")
        self._source = str(config.data.reward_fn_key)

        async def make() -> Any:
            return load_reward_manager(config, tokenizer, **arguments)

        # What runs the function where it needs the main thread; None: threads, several at once.
        self._here: CallsHere | None = None
        try:
            # There: a manager keeps the event loop that it is created in.
            self.manager = self._loop.submit(make()).result()
            if needs_main_thread(importable(getattr(self.manager, "compute_score", None))):
                self._here = CallsHere()
                self._loop.call_by(self._here)
        except BaseException:
            self.close()
            raise

    def __call__(self, data: DataProto, return_dict: bool = False, begun: Sequence[Begun | None] = ()) -> Any:
        """Score a batch.

        Args:
            data: prompts (bs, prompt_length), responses (bs, response_length), attention_mask, and the columns that
                the manager reads. rm_scores (bs, response_length), where a reward model or environments have given
                them, are the reward.
            begun: for each response, what `begin` has returned for it, or None; empty: none was begun.

        Returns:
            The scores, float32 of shape (bs, response_length), zero but for the last token of each response; with
            `return_dict`, {"reward_tensor": those, "reward_extra_info": {component: list of bs values}}.

        Raises:
            ScoringError: the manager raised; it names the sample.
        """
        if "rm_scores" in data.batch.keys():
            scores, extra = extract_reward(data)
        else:
            scores, extra = self._score(data, begun or [None] * len(data))
        return {"reward_tensor": scores, "reward_extra_info": extra} if return_dict else scores

    def close(self) -> None:
        """End the thread."""
        self._loop.close()

    def begins(self, in_thread: bool) -> bool:
        """Tell whether a response can be scored while others are still written.

        It can by verl's own managers, which call functions in threads in any case: what they read of a response is
        known.
        """
        return type(self.manager).__module__.startswith(VERLS)

    def begin(self, sample: DataProto) -> Begun:
        """Begin to score one response beside this thread; `sample` has one row, as for `__call__`."""
        length = _lengths(sample)[0]
        tokens = sample.batch["responses"][0, :length].tolist()
        return Begun(tokens, self._loop.submit(self._one(sample, 0)))

    def give_up(self, begun: Sequence[Begun | None]) -> None:
        """Drop what was begun."""
        for one in begun:
            if one is not None:
                one.pending.cancel()

    def _score(self, data: DataProto, begun: Sequence[Begun | None]) -> tuple[torch.Tensor, dict[str, list[Any]]]:
        lengths = _lengths(data)
        responses = [ids[:n] for ids, n in zip(data.batch["responses"].tolist(), lengths.tolist(), strict=True)]
        pending = [
            one.pending
            if one is not None and one.tokens == tokens
            else self._loop.submit(self._one(data[row : row + 1], row))
            for row, (one, tokens) in enumerate(zip(begun, responses, strict=True))
        ]
        try:
            if self._here is not None:
                self._here.run_until(pending)
            else:
                wait(pending, return_when=FIRST_EXCEPTION)
            failed = [row for row, one in enumerate(pending) if one.done() and one.exception() is not None]
            results = [_result(pending[row], row) for row in failed or range(len(pending))]
        finally:
            for one in pending:
                one.cancel()
        scores = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
        scores[torch.arange(len(data)), lengths - 1] = torch.tensor(
            [float(result["reward_score"]) for result in results], dtype=torch.float32
        )
        infos = [result.get("reward_extra_info", {}) for result in results]
        names = dict.fromkeys(name for info in infos for name in info)
        return scores, {name: [info.get(name) for info in infos] for name in names}

    async def _one(self, sample: DataProto, row: int) -> dict[str, Any]:
        columns = dict(sample.non_tensor_batch)
        if "extra_info" in columns:  # which verl's managers add to
            columns["extra_info"] = objects(dict(info or {}) for info in columns["extra_info"])
        if self._source in columns:  # under no other name do verl's managers look for it
            columns.setdefault("data_source", columns[self._source])
        try:
            sample = DataProto(sample.batch, columns, sample.meta_info)
            result: dict[str, Any] = await self.manager.run_single(sample)
            return result
        except Exception as error:
            where = own_line(error) or source_of(self.manager.compute_score)
            raise ScoringError(f"the reward raised {type(error).__name__}: {error}", where, row) from error


def _result(pending: "Future[dict[str, Any]]", row: int) -> dict[str, Any]:
    try:
        return pending.result()
    except ScoringError as error:  # one that was begun by itself knows no row
        raise ScoringError(error.message, error.hook_file, row) from error.__cause__


def _lengths(data: DataProto) -> torch.Tensor:
    """Return how many tokens each response has, (bs,)."""
    mask: torch.Tensor = data.batch["attention_mask"]
    return mask[:, data.batch["prompts"].size(1) :].sum(dim=1)
