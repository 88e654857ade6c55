# vextract:template - edit freely
"""Episodes of agent programs: each is a call of the owner's program, behind whose endpoint the policy answers.

`local.agent.program` names the program: it is found, called in a thread of its own, and cleaned up after. A thread
cannot be killed. A program that hangs is left in its own, with a key that opens nothing any more. A coroutine is
cancelled, and processes that the program has started are ended.
"""

import asyncio
import contextlib
import copy
import importlib.util
import inspect
import math
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..episodes.environments import DaemonThreads, Failure
from ..episodes.episode import Episode, batch_with_prompts, columns_of
from ..episodes.loop import EpisodeEnded, episode_seed, play_all, writing
from ..episodes.tools import MULTI_TURN, has_tools
from ..errors import ConfigError
from ..hooks import hook_file_of, importing_hooks, taken_by
from ..rewards.scoring import problem_of, to_builtin
from ..run.process import run_in
from ..settings.setting import choose, functions_in
from ..training.batches import objects
from ..vendored.protocol import DataProto
from .endpoint import MODEL, Endpoint
from .session import Rendering, Session

PROGRAM = "local.agent.program"
# What a program is called with, as far as it has such parameters.
ARGUMENTS = ("task", "base_url", "api_key", "model", "seed")
# Seconds that a program gets to end in, once its time is up.
GRACE = 1.0
# Columns that the program gets otherwise, or not.
OURS = ("raw_prompt", "raw_prompt_ids", "uid", "reward_model")


class AgentLoop:
    """Runs this process's sessions; the rollout engine writes the turns."""

    def __init__(self, config: Any, tokenizer: Any, engine: Any) -> None:
        self.config, self.tokenizer, self.engine = config, tokenizer, engine
        self.program = load_program(config)
        self.timeout: float = config.local.agent.timeout or math.inf
        self.rendering = Rendering(config, tokenizer, engine)
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(DaemonThreads())  # a program that hangs holds up nobody
        self.endpoint = Endpoint(self.loop)

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
                for row, seed in waiting:
                    session = Session(self.config, self.rendering, writer, len(sessions), seed)
                    sessions.append(session)
                    await self._play(session, row)
                    tell(session.place, session.episode.tokens, columns_of(session.episode))
                writer.leave()

            run_in(self.loop, play_all((work() for _ in range(at_once)), writer))
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

    async def _play(self, session: Session, row: dict[str, Any]) -> None:
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
        episode, kind, text = session.episode, "timeout" if is_late else "error", ""
        error: BaseException | None = TimeoutError() if is_late else done.exception()
        if is_late:
            session.counts["hanging"] += not done.done()
            goes_on = f"; it goes on in the thread agent-{session.place}, with a key that opens nothing"
            text = f"took longer than local.agent.timeout={self.timeout:g} s of its own{'' if done.done() else goes_on}"
        elif error is not None:
            episode.end = session.spent  # the program was told so, and gave up
            text = "" if session.spent else f"raised {type(error).__name__}: {' '.join(str(error).split())}"
        elif not session.turns:
            text = "returned without an answer of the policy: ask base_url with api_key"
        else:
            given = done.result()
            info = dict(given) if isinstance(given, Mapping) else {"reward": given}
            reward = to_builtin(info.pop("reward", info.get("score")))
            if reward is None and not self.config.local.env.is_reward:
                reward = 0.0
            if problem := problem_of(reward):
                text = f"returned as `reward` {problem}; local.env.is_reward=false lets the reward manager score"
            else:
                episode.scores[-1], episode.info, episode.end = float(reward), info, session.spent or "terminated"
        if text:
            episode.fail(Failure(kind, f"the agent program {text}", hook_file_of(error or ValueError(), self.program)))


def check_agents(config: Any) -> None:
    """Check that an agent program is named where turns are taken, and can be called.

    Raises:
        ConfigError: it is not, or cannot.
        HookError: its module raised.
    """
    if not config.local.agent.program:
        return
    if not config.actor_rollout_ref.rollout.multi_turn.enable:
        raise ConfigError(f"{PROGRAM} is set, and each response is one turn", f"set {MULTI_TURN}.enable=true")
    if has_tools(config):
        text = f"{PROGRAM} is set, and {MULTI_TURN} names tools, which verl's own loop plays"
        raise ConfigError(text, "leave one of them out: a program brings its tools itself")
    load_program(config)


def load_program(config: Any) -> Callable[..., Any]:
    """Import the function that the config names as `module:function`.

    Raises:
        ConfigError: there is no such function, or it has parameters that nothing is given for.
        HookError: its module raised.
    """
    given = str(config.local.agent.program)
    module_name, _, name = given.partition(":")
    top = module_name.partition(".")[0]
    if not top or not name:
        raise ConfigError(f"{PROGRAM} is {given!r}", f"name a function as module:function: {PROGRAM}=agent:run")
    if importlib.util.find_spec(top) is None:
        hint = f"put {top}.py beside main.py, or install the package that has it"
        raise ConfigError(f"{PROGRAM} is {given!r}, and there is no module {top}", hint)
    with importing_hooks():
        module = importlib.import_module(module_name)
    program = getattr(module, name, None)
    if not callable(program):
        there = functions_in(getattr(module, "__file__", None) or "")
        raise ConfigError(f"{module_name} has no function {name!r}", choose(name, there))
    try:
        inspect.signature(program).bind(**taken_by(program, dict.fromkeys(ARGUMENTS)))
    except TypeError as error:
        hint = f"a program can take {', '.join(ARGUMENTS)}; give others a default"
        raise ConfigError(f"{given} cannot be called: {error}", hint) from error
    return program  # type: ignore[no-any-return]


class ProgramCall:
    """One call of a program, in a thread of the event loop's, which gets a name; a coroutine gets a loop of its own.

    Args:
        arguments: a value for each name in `ARGUMENTS`.
    """

    def __init__(self, program: Any, arguments: Mapping[str, Any], name: str) -> None:
        self.program, self.arguments, self.name = program, taken_by(program, arguments), name
        self.processes_ended = 0  # that it had left behind
        self._thread: int | None = None
        self._cancel: Callable[[], Any] = lambda: None
        self.done = asyncio.get_running_loop().run_in_executor(None, self._run)  # what it returns or raises

    def stop(self) -> None:
        """End what can be ended of a call that goes on: its coroutine, and its processes."""
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody asks for it any more
        with contextlib.suppress(RuntimeError):  # it has just ended
            self._cancel()
        self.processes_ended += end_children(self._thread)

    def _run(self) -> Any:
        threading.current_thread().name = self.name
        self._thread, process = threading.get_native_id(), os.getpid()
        try:
            result = self.program(**self.arguments)
            return asyncio.run(self._awaited(result)) if inspect.isawaitable(result) else result
        finally:
            if os.getpid() != process:  # a fork of the program's has come back, and would go on as a second trainer
                os._exit(1)
            self.processes_ended += end_children(self._thread)

    async def _awaited(self, result: Any) -> Any:
        task: Any = asyncio.current_task()
        self._cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        return await result


def end_children(thread: int | str | None, process: int | str = "self") -> int:
    """Kill the processes that a thread of a process has started, and theirs; returns how many.

    Linux knows which thread has started a process. Elsewhere this finds none.
    """
    ended = 0
    for file in Path(f"/proc/{process}/task").glob(f"{thread}/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for child in map(int, file.read_text().split()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGSTOP)  # it starts no more
                    ended += 1 + end_children("*", child)
                    os.kill(child, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):  # it is another's, or has been waited for
                    os.waitpid(child, 0)
    return ended


def session_metrics(counts: Any) -> dict[str, float]:
    """Compute metrics named agent/* from what was counted of sessions."""
    total = sum(map(Counter, counts), Counter[str]())
    kinds = ("refused", "processes", "hanging", *(f"apart/{reason}" for reason in ("history", "tools", "template")))
    return {
        "agent/requests/mean": total["requests"] / len(counts),
        "agent/untrained_tokens": total["untrained"] / max(total["written"], 1),
        **{f"agent/{kind}": float(total[kind]) for kind in kinds},
    }
