# vextract:template - edit freely
"""Episodes of agent programs: each calls the owner's program, behind whose endpoint the policy answers."""

import asyncio
import copy
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..episodes.environments import DaemonThreads, Failure
from ..episodes.episode import Episode, columns_of, episode_batch
from ..episodes.loop import EpisodeEnded, episode_seed, play_all, writing
from ..episodes.turns import Writer, context_batch
from ..hooks import hook_file_of
from ..training.batches import objects
from ..vendored.protocol import DataProto
from .endpoint import Endpoint
from .program import ProgramCall, UnusableReward, load_program, reward_of
from .record import Turn
from .rendering import Rendering
from .session import MODEL, Limits, Session

# Seconds that a program gets to end in, once its time is up.
GRACE = 1.0
# Columns that the program does not get.
OURS = ("raw_prompt", "raw_prompt_ids", "uid", "reward_model")


class AgentLoop:
    """Runs this process's sessions.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        engine: writes the model's turns.
    """

    def __init__(self, config: Any, tokenizer: Any, engine: Any) -> None:
        self.config, self.tokenizer, self.engine = config, tokenizer, engine
        self.program = load_program(config)
        self.timeout: float | None = config.local.agent.timeout
        self.rendering = Rendering(config, tokenizer, engine)
        self.limits = Limits.of(config)
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(DaemonThreads())
        self.endpoint = Endpoint()
        self.hanging: list[ProgramCall] = []
        self._noted: set[str] = set()

    def run(self, prompts: DataProto, ended: EpisodeEnded | None = None) -> DataProto:
        """Play an episode from each prompt; see `EpisodeLoop.run`.

        Args:
            prompts: with the column raw_prompt, (bs,) lists of messages, and what the program is to get as its task.
                What the program asks first is the prompt.
            ended: is told of each episode that has ended while others go on.

        Returns:
            What `EpisodeLoop.run` does, and the column agent: counts of each session, (bs,) dictionaries.
        """
        count, pad = len(prompts), self.tokenizer.pad_token_id
        rows = [{name: column[row] for name, column in prompts.non_tensor_batch.items()} for row in range(count)]
        sessions = [_Played(Episode([]), row, _seed_of(row, prompts, self.config.local.seed)) for row in rows]
        at_once = min(count, int(self.config.local.env.concurrency))
        with writing(self.engine, self.tokenizer, self.config, prompts.meta_info, count, at_once) as (writer, seeds):
            waiting = iter(zip(range(count), sessions, seeds, strict=True))
            works = (self._work(waiting, writer, ended or (lambda *_: None)) for _ in range(at_once))
            self.loop.run_until_complete(self._all(works, writer))
        episodes = [played.episode for played in sessions]
        width = prompts.batch["input_ids"].shape[1]
        asked = context_batch([episode.prompt for episode in episodes], pad, prompts.meta_info, width)
        batch = episode_batch(asked, episodes, self.limits.response, pad)
        batch.non_tensor_batch["env_seconds"] = np.full(count, max(played.seconds for played in sessions))
        batch.non_tensor_batch["agent"] = objects(played.counts for played in sessions)
        batch.non_tensor_batch["raw_prompt"] = objects(played.prompt for played in sessions)
        return batch

    def close(self) -> None:
        """Give back what the loop holds: its port, too."""
        if not self.loop.is_closed():
            self.loop.run_until_complete(self.endpoint.stop())
            self.loop.close()

    async def _all(self, works: Any, writer: Writer) -> None:
        await self.endpoint.start()
        await play_all(works, writer)

    async def _work(self, waiting: Iterator[tuple[int, "_Played", int]], writer: Writer, ended: EpisodeEnded) -> None:
        """Play one session after another. Only a place that stays empty is waited for no longer."""
        for place, played, seed in waiting:
            await self._play(place, played, seed, writer)
            ended(place, played.episode.tokens, columns_of(played.episode))
        writer.leave()

    async def _play(self, place: int, played: "_Played", seed: int, writer: Writer) -> None:
        """Call the program once, and fill in the episode."""
        session = Session(self.rendering, self.limits, writer, place, seed, self._note)
        arguments = {"base_url": self.endpoint.url, "api_key": session.key, "model": MODEL, "seed": played.seed}
        call = ProgramCall(self.program, {"task": _task_of(played.row), **arguments}, f"agent-{place}")
        self.endpoint.sessions[session.key] = session
        try:
            await self._settle(call, session, played.episode)
        finally:
            del self.endpoint.sessions[session.key]
            session.close()
            if call.is_alive():
                call.stop()
        if not session.record.turns:  # nothing can be computed from an empty response
            turn = Turn(None, list(played.row["raw_prompt_ids"]))
            turn.tokens, turn.log_probs = await writer.write(place, turn.added, 1, seed)
            session.record.keep(turn)
        played.take(session, call)

    async def _settle(self, call: ProgramCall, session: Session, episode: Episode) -> None:
        """Wait for the program, and note how it ended."""
        future = asyncio.wrap_future(call.start())
        while not future.done():
            left = None if self.timeout is None else self.timeout - session.own_seconds()
            if left is not None and left <= 0:
                break
            both = {future, session.broken}
            await asyncio.wait(both, timeout=left and max(left, 0.01), return_when=asyncio.FIRST_COMPLETED)
            if session.broken.done():
                session.broken.result()
        if not future.done():
            session.close()
            call.stop()
            await asyncio.wait({future}, timeout=GRACE)
            episode.fail(Failure("timeout", self._too_late(call), hook_file_of(TimeoutError(), self.program)))
            return
        error = future.exception()
        needed = bool(self.config.local.env.is_reward)
        try:
            if error is not None:
                raise error
            episode.scores, episode.info = [0.0], {}
            episode.scores[0], episode.info = reward_of(future.result(), needed=needed)
            episode.end = session.spent or "terminated"
        except BaseException as raised:  # of any class: the program is the owner's
            if session.spent and not isinstance(raised, UnusableReward):
                episode.end = session.spent  # it was told so, and gave up
                return
            text = f"{type(raised).__name__}: {' '.join(str(raised).split())}"
            what = str(raised) if isinstance(raised, UnusableReward) else f"raised {text}"
            where = hook_file_of(raised, self.program)
            if not session.record.turns and error is None:
                what = "returned without a request to the policy: it asks base_url with api_key"
            episode.fail(Failure("error", f"the agent program {what}", where))

    def _too_late(self, call: ProgramCall) -> str:
        text = f"the agent program took longer than local.agent.timeout={self.timeout:g} s of its own"
        if not call.is_alive():
            return text
        self.hanging = [each for each in self.hanging if each.is_alive()] + [call]
        return f"{text}; it goes on in the thread {call.name}, with a key that opens nothing"

    def _note(self, names: list[str]) -> None:
        """Say once which settings of requests are not followed."""
        new = [name for name in names if name not in self._noted]
        self._noted.update(new)
        if new:
            text = f"agent programs ask with {', '.join(new)}, which the policy does not follow"
            print(f"note: {text}: actor_rollout_ref.rollout says how to sample (shown once)", file=sys.stderr)


class _Played:
    """One session with what comes of it."""

    def __init__(self, episode: Episode, row: dict[str, Any], seed: int) -> None:
        self.episode, self.row, self.seed = episode, row, seed
        self.counts: Counter[str] = Counter()
        self.prompt: list[Any] = []
        self.seconds = 0.0

    def take(self, session: Session, call: ProgramCall) -> None:
        """Fill in the episode: the chain of the last turn."""
        episode, record = self.episode, session.record
        chain = record.turns[-1].chain()
        episode.prompt = chain[0].added
        reward = episode.scores[0] if episode.scores else 0.0
        episode.scores = []
        for turn in chain:
            if turn.before is not None:
                for _ in range(turn.dropped):
                    episode.take_back()
                episode.add_answer(turn.added, turn.said[:-1])
            episode.add_turn(turn.tokens, turn.log_probs, "")
            episode.messages[-1:] = turn.said[-1:] or [{"role": "assistant", "content": ""}]
        episode.scores[-1] = reward
        self.prompt = chain[0].said[:-1] or self.row["raw_prompt"]
        self.seconds = session.own_seconds()
        own = sum(len(turn.tokens) for turn in chain)
        written = sum(len(turn.tokens) for turn in record.turns)
        self.counts.update(session.counts, turns=len(record.turns), written=written, untrained=written - own)
        self.counts.update({f"apart/{reason}": count for reason, count in record.apart.items()})
        self.counts.update(processes=call.processes_ended, hanging=int(call.is_alive()))


def _seed_of(row: dict[str, Any], prompts: DataProto, run_seed: int) -> int:
    """Return a seed that is the same for all sessions of a prompt in a step."""
    when = "validation" if prompts.meta_info.get("validate") else prompts.meta_info.get("global_steps", 0)
    return episode_seed(run_seed, when, row.get("uid"))


def _task_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return what the program gets of a row: prompt, ground_truth, and the row's other columns."""
    task = {name: copy.deepcopy(value) for name, value in row.items() if name not in OURS}
    truth = (row.get("reward_model") or {}).get("ground_truth")
    return {"prompt": [dict(message) for message in row["raw_prompt"]], "ground_truth": truth, **task}
