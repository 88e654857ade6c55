# vextract:template - edit freely
"""Episodes of agent programs: each is a call of the owner's program, behind whose endpoint the policy answers."""

import asyncio
import copy
import math
from typing import Any

from ..episodes.environments import DaemonThreads, Failure
from ..episodes.episode import Episode, batch_with_prompts, columns_of
from ..episodes.loop import EpisodeEnded, episode_seed, play_all, writing
from ..hooks import hook_file_of
from ..training.batches import objects
from ..vendored.protocol import DataProto
from .dialects import MODEL
from .endpoint import Endpoint
from .program import ProgramCall, load_program, reward_of
from .rendering import Rendering
from .session import Session

# Seconds that a program gets to end in, once its time is up.
GRACE = 1.0
# Columns that the program gets otherwise, or not.
OURS = ("raw_prompt", "raw_prompt_ids", "uid", "reward_model")
Row = dict[str, Any]


class AgentLoop:
    """Runs this process's sessions; the rollout engine writes the turns."""

    def __init__(self, config: Any, tokenizer: Any, engine: Any) -> None:
        self.config, self.tokenizer, self.engine = config, tokenizer, engine
        self.program = load_program(config)
        self.timeout: float = config.local.agent.timeout or math.inf
        self.rendering = Rendering(config, tokenizer, engine)
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(DaemonThreads())  # a program that hangs holds up nobody
        self.endpoint = Endpoint()

    def run(self, prompts: DataProto, ended: EpisodeEnded | None = None) -> DataProto:
        """Play an episode from each prompt, as `EpisodeLoop.run` does; what a program asks first becomes the prompt.

        Returns:
            What `EpisodeLoop.run` does, and the column agent_counts: what came of each session, (bs,) dictionaries.
        """
        count, meta, tell = len(prompts), prompts.meta_info, ended or (lambda *_: None)
        rows = [{name: column[row] for name, column in prompts.non_tensor_batch.items()} for row in range(count)]
        when = "validation" if meta.get("validate") else meta.get("global_steps", 0)
        for place, row in enumerate(rows):
            row["seed"] = episode_seed(self.config.local.seed, when, row.get("uid", place))
            text = self.tokenizer.decode(row["raw_prompt_ids"], skip_special_tokens=True)
            row["prompt"] = [dict(each) for each in row.get("raw_prompt", [{"role": "user", "content": text}])]
        at_once = min(count, int(self.config.local.env.concurrency))
        sessions: list[Session] = []  # in the order of the rows
        with writing(self.engine, self.tokenizer, self.config, meta, count, at_once) as (writer, seeds):
            waiting = iter(list(zip(rows, seeds, strict=True)))

            async def work() -> None:  # its place is left only when none waits for it: the engine counts on it
                self.endpoint.start()
                for row, seed in waiting:
                    session = Session(self.config, self.rendering, writer, len(sessions), seed)
                    sessions.append(session)
                    await self._play(session, row)
                    tell(session.place, session.episode.tokens, columns_of(session.episode))
                writer.leave()

            self.loop.run_until_complete(play_all((work() for _ in range(at_once)), writer))
        episodes, seconds = [session.episode for session in sessions], max(each.seconds for each in sessions)
        batch = batch_with_prompts(prompts, episodes, seconds, self.config, self.tokenizer)
        columns = batch.non_tensor_batch
        columns["agent_counts"] = objects(dict(session.counts) for session in sessions)
        columns["raw_prompt"] = objects(row["prompt"] for row in rows)
        return batch

    def close(self) -> None:
        """Give back what the loop holds: its port, too."""
        if not self.loop.is_closed():
            self.loop.run_until_complete(self.endpoint.stop())
            self.loop.close()

    async def _play(self, session: Session, row: Row) -> None:
        """Call the program once, and fill in the episode."""
        truth = (row.get("reward_model") or {}).get("ground_truth")
        task = {name: value for name, value in row.items() if name not in OURS}
        arguments = {"base_url": self.endpoint.url, "api_key": session.key, "model": MODEL, "seed": row["seed"]}
        arguments["task"] = copy.deepcopy({**task, "ground_truth": truth})
        self.endpoint.sessions[session.key] = session
        call = ProgramCall(self.program, arguments, f"agent-{session.place}")
        try:
            # Its time is its own, without that in which the policy writes.
            while not call.done.done() and (left := self.timeout - session.own_seconds()) > 0:
                await asyncio.wait({call.done, session.broken}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if session.broken.done():
                    session.broken.result()
        finally:
            is_late = not call.done.done()
            del self.endpoint.sessions[session.key]
            await session.close()
            if is_late:
                call.stop()
        if is_late:
            await asyncio.wait({call.done}, timeout=GRACE)
        if session.turns:
            row["prompt"], session.episode = session.turns[-1].prompt or row["prompt"], session.turns[-1].episode
        else:  # nothing can be computed from an empty response
            session.episode = Episode(list(row["raw_prompt_ids"]))
            written = await session.writer.write(session.place, session.episode.prompt, 1, session.seed)
            session.episode.add_turn(*written, "")
        self._take_result(session, call.done, is_late)
        session.turns.clear()
        trained = sum(session.episode.sampled)
        session.counts.update(processes=call.processes_ended, untrained=max(session.counts["written"] - trained, 0))

    def _take_result(self, session: Session, done: "asyncio.Future[Any]", is_late: bool) -> None:
        """Note the reward, or what went wrong."""
        episode, kind, text = session.episode, "error", ""
        error: BaseException | None = TimeoutError() if is_late else done.exception()
        if is_late:
            session.counts["hanging"] += not done.done()
            goes_on = f"; it goes on in the thread agent-{session.place}, with a key that opens nothing"
            limit = f"local.agent.timeout={self.timeout:g} s of its own"
            kind, text = "timeout", f"took longer than {limit}{'' if done.done() else goes_on}"
        elif error is not None:
            episode.end = session.spent  # the program was told so, and gave up
            text = "" if session.spent else f"raised {type(error).__name__}: {' '.join(str(error).split())}"
        elif not session.turns:
            text = "returned without an answer of the policy: ask base_url with api_key"
        else:
            try:
                reward, episode.info = reward_of(done.result(), needed=bool(self.config.local.env.is_reward))
                episode.scores[-1], episode.end = reward, session.spent or "terminated"
            except ValueError as unusable:
                text = str(unusable)
        if text:
            where = hook_file_of(error or ValueError(), self.program)
            episode.fail(Failure(kind, f"the agent program {text}", where))
