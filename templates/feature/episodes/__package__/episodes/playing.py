# vextract:template - edit freely
"""From a batch of prompts to a batch of episodes, over all processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..agents.agent_loop import AgentLoop
from ..run.distributed import Ranks
from ..switches import AGENTS, TOOLS
from ..training.batches import REWARD_COLUMNS
from ..vendored.protocol import DataProto
from .loop import EpisodeLoop
from .outcomes import Outcomes
from .tool_loop import ToolLoop
from .tools import has_tools

if TYPE_CHECKING:
    from ..training.rollouts import Rollouts


class Episodes:
    """Plays an episode from each prompt of a batch.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        ranks: this process among its peers.
        engine: the rollout engine of this process.
        make_env: makes the environments; None: the hook of that name does.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, engine: Any, make_env: Any = None) -> None:
        self.loop: Any = None
        if AGENTS and config.local.agent.program:
            self.loop = AgentLoop(config, tokenizer, engine)
        elif TOOLS and has_tools(config):
            self.loop = ToolLoop(config, tokenizer, engine)
        else:
            self.loop = EpisodeLoop(config, tokenizer, engine, make_env)
        self.outcomes = Outcomes(config, tokenizer, shows_errors=ranks.rank == 0)

    def play(self, prompts: DataProto, spread: Callable[[Callable[..., DataProto]], DataProto]) -> DataProto:
        """Play them, each process its share.

        Args:
            prompts: the global batch; it needs the columns uid and extra_info too.
            spread: calls a function with each process's share, and puts together what they return.

        Returns:
            What `Rollouts.generate` returns, response_mask (bs, response_length) int64, 1 on what the model wrote, and
            what `Outcomes.settle` adds.

        Raises:
            HookError: too many environments failed.
        """
        episodes = self.outcomes.settle(spread(self.loop.run), prompts.non_tensor_batch)
        taken = {*REWARD_COLUMNS, "raw_prompt_ids"}
        columns = {name: values for name, values in prompts.non_tensor_batch.items() if name not in taken}
        episodes.non_tensor_batch = columns | episodes.non_tensor_batch
        return episodes

    def close(self) -> None:
        """Give back what episodes hold."""
        self.loop.close()


def play_episodes(rollouts: Rollouts, config: Any, tokenizer: Any, make_env: Any = None) -> Rollouts:
    """Have rollouts play episodes where `actor_rollout_ref.rollout.multi_turn.enable` asks for them; return them."""
    if config.actor_rollout_ref.rollout.multi_turn.enable:
        rollouts.episodes = Episodes(config, tokenizer, rollouts.ranks, rollouts.engine, make_env)
    return rollouts
