# vextract:template - edit freely
"""The agent program that `local.agent.program` names: found, called in a thread of its own, and cleaned up after.

A thread cannot be killed. A program that hangs is left in its own, with a key that opens nothing any more. A coroutine
is cancelled, and processes that the program has started are ended.
"""

import asyncio
import contextlib
import importlib.util
import inspect
import os
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..data.steps import finite_number
from ..episodes.tools import MULTI_TURN, has_tools
from ..errors import ConfigError
from ..hooks import importing_hooks, taken_by
from ..settings.setting import choose, functions_in

PROGRAM = "local.agent.program"
# What a program is called with, as far as it has such parameters.
ARGUMENTS = ("task", "base_url", "api_key", "model", "seed")
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def has_program(config: Any) -> bool:
    """Tell whether the config names an agent program."""
    return bool(config.local.agent.program)


def check_agents(config: Any) -> None:
    """Check that an agent program is named where turns are taken, and can be called.

    Raises:
        ConfigError: it is not, or cannot.
        HookError: its module raised.
    """
    if not has_program(config):
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
    for parameter in inspect.signature(program).parameters.values():
        is_needed = parameter.default is parameter.empty and parameter.kind not in VARIADIC
        if is_needed and parameter.name not in ARGUMENTS:
            text = f"{given} has the parameter {parameter.name!r}, which nothing is given for"
            raise ConfigError(text, f"a program can take {', '.join(ARGUMENTS)}; give others a default")
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
        with contextlib.suppress(RuntimeError):  # it has just ended
            self._cancel()
        if self._thread is not None:
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


def end_children(thread: int) -> int:
    """Kill the processes that a thread of this process has started, and theirs; returns how many.

    Linux knows which thread has started a process. Elsewhere this finds none.
    """
    children, ended = _children_of(os.getpid(), str(thread)), 0
    family = list(children)
    for process in family:  # it grows meanwhile
        family += _children_of(process, "*")
    for process in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            ended += 1
    for child in children:
        with contextlib.suppress(ChildProcessError):  # somebody else has waited for it
            os.waitpid(child, 0)
    return ended


def _children_of(process: int, thread: str) -> list[int]:
    found = []
    for file in Path(f"/proc/{process}/task").glob(f"{thread}/children"):
        with contextlib.suppress(OSError):  # it has ended
            found += [int(number) for number in file.read_text().split()]
    return found


def reward_of(result: Any, *, needed: bool) -> tuple[float, dict[str, Any]]:
    """Return the reward in what a program returned, and what else that reports.

    Args:
        result: a number, or a dictionary with `reward` (or `score`) and further numbers or texts.
        needed: whether there has to be a reward.

    Raises:
        ValueError: there is none; its text is what is wrong.
    """
    given = result if isinstance(result, Mapping) else {"reward": result}
    reported = {str(key): value for key, value in given.items()}
    reward = reported.pop("reward", reported.get("score"))
    if reward is None and not needed:
        return 0.0, reported
    try:
        return finite_number(reward), reported
    except ValueError as error:
        hint = "; with local.env.is_reward=false the reward manager scores instead" if reward is None else ""
        text = f"returned {error} as reward, not a finite number, alone or as `reward` of a dictionary{hint}"
        raise ValueError(text) from error
