# vextract:template - edit freely
"""verl's own reward managers, which score one response each time, in coroutines.

The trainer calls them as those that score a whole batch: `reward_fn(batch, return_dict=True)`. Plain functions are
called in threads, several at once; one that uses signals, which only a main thread gets, or that forks is called in
this thread.
"""

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..rewards.scoring import ScoringError, importable, own_line, raw_function, source_of
from ..run.process import run_in, without_running_loop
from ..vendored.algorithms.reward import extract_reward, load_reward_manager
from ..vendored.protocol import DataProto
from .batches import objects

# Words of a function that limits its time by signals, which only a main thread gets, or that forks. math-verify limits
# its parser by an alarm, and timeout_decorator what it decorates.
FOR_MAIN_THREAD = (
    *("SIGALRM", "setitimer", "signal.alarm", "math_verify", "timeout_decorator"),
    *("multiprocessing.Process(", "mp.Process(", "os.fork(", 'get_context("fork")', "get_context('fork')"),
)


class RewardLoop:
    """One of verl's own managers, and the event loop that all responses of a batch are scored in.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        arguments: further ones of the manager's constructor.
    """

    def __init__(self, config: Any, tokenizer: Any, arguments: dict[str, Any]) -> None:
        self._source = str(config.data.reward_fn_key)
        self._begin_loop()

        async def make() -> Any:
            return load_reward_manager(config, tokenizer, **arguments)

        self.manager = self._run(make())  # there: a manager keeps the event loop that it is created in
        if needs_main_thread(importable(getattr(self.manager, "compute_score", None))):
            self._call_here()

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
            lengths, results = lengths_of(data), self._score(data)
            scores = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
            scores[torch.arange(len(data)), lengths - 1] = torch.tensor(
                [float(result["reward_score"]) for result in results], dtype=torch.float32
            )
            infos = [result.get("reward_extra_info", {}) for result in results]
            extra = {name: [info.get(name) for info in infos] for name in dict.fromkeys(n for i in infos for n in i)}
        return {"reward_tensor": scores, "reward_extra_info": extra} if return_dict else scores

    def close(self) -> None:
        """End the event loop."""
        if not self._loop.is_running():
            self._loop.close()

    def _begin_loop(self) -> None:
        self._loop = asyncio.new_event_loop()

    def _call_here(self) -> None:
        """Call plain functions in this thread, one after the other, and not in several."""
        self._loop.set_default_executor(CallsHere())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run_in(self._loop, work)

    def _score(self, data: DataProto) -> list[dict[str, Any]]:
        """Return what the manager returns for each response."""

        async def score() -> list[dict[str, Any]]:
            tasks = [asyncio.ensure_future(self._one(data[row : row + 1], row)) for row in range(len(data))]
            try:
                return [await task for task in tasks]
            finally:
                for task in tasks:
                    task.cancel()

        found: list[dict[str, Any]] = self._run(score())
        return found

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
        except (Exception, SystemExit) as error:
            where = own_line(error) or source_of(self.manager.compute_score)
            raise ScoringError(f"the reward raised {type(error).__name__}: {error}", where, row) from error


class CallsHere(ThreadPoolExecutor):
    """Calls at once, and in this thread, what an event loop has for another one."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call a function, which may run an event loop of its own."""
        future: Future[Any] = Future()
        try:
            with without_running_loop():
                future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def lengths_of(data: DataProto) -> torch.Tensor:
    """Return how many tokens each response has, (bs,)."""
    mask: torch.Tensor = data.batch["attention_mask"]
    return mask[:, data.batch["prompts"].size(1) :].sum(dim=1)


def needs_main_thread(function: Any) -> bool:
    """Tell whether a scoring function, or what was copied beside it among the hooks, uses signals or forks.

    Beside other threads that do the same, forks may wait for ever for what a thread held that is not there any more.
    """
    own, package = raw_function(function), Path(__file__).resolve().parents[1]
    file = inspect.getsourcefile(own) if inspect.isroutine(own) else None
    if file is None or sys.platform == "win32" or inspect.iscoroutinefunction(own):
        return False
    path, hooks = Path(file).resolve(), package / "custom"
    if path.is_relative_to(package / "vendored"):
        return False
    files = [path, *(sorted(hooks.rglob("*.py")) if path.is_relative_to(hooks) else ())]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    return any(word in text for text in texts for word in FOR_MAIN_THREAD)
