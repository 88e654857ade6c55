# vextract:template - edit freely
"""Episodes with tools: upstream's agent loop, with the project's rollout engine in the place of its servers.

The model writes, its calls are parsed and run, and what the tools say is appended as tokens, until it calls none any
more or the budget is spent. (Upstream: verl/experimental/agent_loop/tool_agent_loop.py.)
"""

import asyncio
import logging
from itertools import groupby
from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError
from ..run.process import run_in
from ..vendored.data.rl_dataset import RLHFDataset
from ..vendored.experimental.agent_loop import tool_agent_loop, tool_parser
from ..vendored.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap, ToolListWrap
from ..vendored.experimental.agent_loop.tool_agent_loop import AgentData, ToolAgentLoop
from ..vendored.protocol import DataProto
from ..vendored.tools.schemas import ToolResponse
from ..vendored.workers.rollout.replica import TokenOutput
from .environments import DaemonThreads
from .episode import Episode, batch_with_prompts, columns_of
from .loop import EpisodeEnded, play_all, turn_seed, writing
from .tool_turns import joined_by
from .tools import load_tools
from .turns import Writer


class ToolLoop:
    """Runs this process's episodes with tools.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        engine: writes the model's turns.

    Attributes:
        seconds: how long the tools of the episode that waited longest for them were at work, in the last batch.
    """

    def __init__(self, config: Any, tokenizer: Any, engine: Any) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.engine = engine
        self.tools = load_tools(config)
        self.joined_by = joined_by(config, tokenizer)
        self.places = asyncio.Semaphore(int(config.local.env.concurrency))
        self.loop = asyncio.new_event_loop()  # one for all rollouts: a tool may hold on to connections
        self.loop.set_default_executor(DaemonThreads())
        # They tell of each call that fails or cannot be read; `tool_errors` counts the former.
        for module in (tool_agent_loop, tool_parser):
            logging.getLogger(module.__file__).setLevel(logging.CRITICAL)
        read: Any = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
        # What upstream reads besides: how it names requests, and where else a tokenizer may be.
        read.actor_rollout_ref.rollout.full_determinism = False
        read.actor_rollout_ref.model.setdefault("tokenizer_path", None)
        self.read = DictConfigWrap(read)

    def run(self, prompts: DataProto, ended: EpisodeEnded | None = None) -> DataProto:
        """Play an episode from each prompt; see `EpisodeLoop.run`.

        Args:
            prompts: with the column raw_prompt, (bs,) lists of messages. Their tokens are made anew, with the schemas
                of the tools that the row's `extra_info["tool_selection"]` names, or of all.
            ended: is told of each episode that has ended while others go on.

        Returns:
            What `EpisodeLoop.run` does, and the column tool_rewards: the rewards that the tools gave, (bs,) lists.
        """
        self.seconds = 0.0
        episodes = [Episode([]) for _ in range(len(prompts))]
        rows = [{name: column[row] for name, column in prompts.non_tensor_batch.items()} for row in range(len(prompts))]
        tell = ended or (lambda *_: None)
        parts = list(zip(episodes, rows, strict=True))
        with writing(self.engine, self.tokenizer, self.config, prompts.meta_info, len(parts)) as (writer, seeds):
            plays = (self._play(place, *parts[place], seed, writer, tell) for place, seed in enumerate(seeds))
            run_in(self.loop, play_all(plays, writer))
        return batch_with_prompts(prompts, episodes, self.seconds, self.config, self.tokenizer)

    def close(self) -> None:
        """Give back what the loop holds."""
        self.loop.close()

    async def _play(
        self,
        place: int,
        episode: Episode,
        row: dict[str, Any],
        seed: int,
        writer: Writer,
        ended: EpisodeEnded,
    ) -> None:
        """Play one episode to its end."""
        agent = _Agent(
            trainer_config=self.read,
            server_manager=_Server(self.config, writer, place, seed),
            tokenizer=self.tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            tools=ToolListWrap(self.tools),
            **self.joined_by,
        )
        agent.places, agent.timeout = self.places, self.config.local.env.timeout
        asked = ("raw_prompt", "tools_kwargs", "extra_info")
        output = await agent.run({}, **{name: row[name] for name in asked if row.get(name) is not None})
        self._take(episode, output, agent)
        ended(place, episode.tokens, columns_of(episode))
        writer.leave()

    def _take(self, episode: Episode, output: AgentLoopOutput, agent: "_Agent") -> None:
        """Fill in an episode from what upstream's loop returns."""
        data, multi_turn = agent.data, self.config.actor_rollout_ref.rollout.multi_turn
        episode.prompt, episode.tokens, episode.sampled = output.prompt_ids, output.response_ids, output.response_mask
        episode.has_log_probs = output.response_logprobs is not None
        episode.log_probs = output.response_logprobs or [0.0] * len(output.response_ids)
        last = 0
        for sampled, tokens in groupby(output.response_mask):
            first, last = last, last + len(list(tokens))
            if sampled:
                episode.turn_starts.append(first)
                episode.turn_ends.append(last - 1)
        episode.scores = [0.0] * len(episode.turn_starts)
        episode.answers = data.user_turns
        episode.messages = agent.conversation()
        self.seconds = max(self.seconds, output.metrics.tool_calls)
        episode.info = {"tool_calls": agent.calls, "tool_errors": agent.errors}
        episode.tool_rewards = data.tool_rewards
        limits = ((multi_turn.max_assistant_turns, data.assistant_turns), (multi_turn.max_user_turns, data.user_turns))
        if any(most and number >= most for most, number in limits):
            episode.end = "turns_spent"
        elif data.tool_calls or len(episode.tokens) >= self.config.actor_rollout_ref.rollout.response_length:
            episode.end = "budget_spent"
        else:
            episode.end = "terminated"


class _Agent(ToolAgentLoop):
    """Upstream's loop for one episode, in which no tool holds up the others for ever."""

    places: asyncio.Semaphore
    timeout: float | None
    data: AgentData
    said: list[dict[str, Any]]
    calls = errors = 0

    async def _handle_pending_state(self, agent_data: AgentData, sampling_params: dict[str, Any]) -> Any:
        self.data, self.said = agent_data, []
        return await super()._handle_pending_state(agent_data, sampling_params)

    async def _handle_processing_tools_state(self, agent_data: AgentData) -> Any:
        self.said.append(self._turn())
        before = len(agent_data.messages)
        state = await super()._handle_processing_tools_state(agent_data)
        self.said += map(dict, agent_data.messages[before:])
        return state

    async def _call_tool(self, tool_call: Any, tools_kwargs: dict[str, Any], agent_data: AgentData) -> Any:
        """Run a call; one that takes too long, or wants to end the program, is answered by an error."""
        self.calls += 1

        async def called() -> Any:
            try:
                return await super(_Agent, self)._call_tool(tool_call, tools_kwargs, agent_data)
            except SystemExit as error:  # of a coroutine; it would end the loop
                return _failed(tool_call, repr(error))

        try:
            async with self.places:
                found = await asyncio.wait_for(called(), self.timeout)
        except asyncio.TimeoutError:
            found = _failed(tool_call, f"it took longer than local.env.timeout={self.timeout:g} s")
        if found[0].image or found[0].video:
            raise ConfigError(
                f"the tool {tool_call.name!r} answers by an image or a video, and the model is shown text alone",
                "let it return text: ToolResponse(text=...)",
            )
        self.errors += (found[0].text or "").startswith(("Error executing tool", "Invalid JSON", "Unknown function"))
        return found

    def conversation(self) -> list[dict[str, Any]]:
        """Return what the model and the tools have said, as messages, to the model's last turn."""
        said = list(self.said)
        if sum(message["role"] == "assistant" for message in said) < self.data.assistant_turns:
            said.append(self._turn())
        while said and said[-1]["role"] != "assistant":  # there was no room for it
            said.pop()
        return said

    def _turn(self) -> dict[str, Any]:
        text = self.tokenizer.decode(self.data.response_ids, skip_special_tokens=True)
        return {"role": "assistant", "content": text}


class _Server:
    """Stands where upstream has the client of its servers, for one episode.

    Args:
        config: the whole config.
        writer: of turns.
        place: of the episode among those that are played.
        seed: of the episode.
    """

    def __init__(self, config: Any, writer: Writer, place: int, seed: int) -> None:
        self.budget = int(config.actor_rollout_ref.rollout.response_length)
        self.most = min(config.local.env.max_turn_tokens or self.budget, self.budget)
        self.writer, self.place, self.seed = writer, place, seed
        self.prompt_length: int | None = None
        self.turns = 0

    async def generate(self, request_id: str, *, prompt_ids: list[int], **_: Any) -> TokenOutput:
        """Return what the model writes next after these tokens."""
        if self.prompt_length is None:
            self.prompt_length = len(prompt_ids)
        left = self.budget - (len(prompt_ids) - self.prompt_length)
        seed = turn_seed(self.seed, self.turns)
        self.turns += 1
        tokens, log_probs = await self.writer.write(self.place, prompt_ids, min(self.most, left), seed)
        return TokenOutput(token_ids=tokens, log_probs=log_probs)


def _failed(tool_call: Any, text: str) -> tuple[ToolResponse, float, dict[str, Any]]:
    return ToolResponse(text=f"Error executing tool '{tool_call.name}': {text}"), 0.0, {}
