"""Episodes with an engine that writes beside what it is writing already: none waits for another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.environments.support import OneProcess, Project, Scripted, prompts_of, rollouts_of

PROMPT = "<user>?<assistant>"
TURNS = 3


class AtOnce(Scripted):
    """The scripted engine, which also writes each turn as soon as it is asked for."""

    def __init__(self, package: Project, write: Any, delay: Callable[[int], float]) -> None:
        super().__init__(package, write)
        self.delay = delay
        self.seeds: dict[tuple[int, int], int] = {}
        self.error: Exception | None = None

    @contextlib.contextmanager
    def writer(self, meta_info: dict[str, Any]) -> Iterator[_Writer]:
        yield _Writer(self)


class _Writer:
    def __init__(self, engine: AtOnce) -> None:
        self.engine = engine

    async def write(self, episode: int, context: list[int], max_tokens: int, seed: int) -> Any:
        self.engine.seeds[episode, len(context)] = seed
        await asyncio.sleep(self.engine.delay(episode))
        tokens = self.engine.write([context])[0][:max_tokens]
        return tokens, [-float(token) for token in tokens]

    def leave(self) -> None: ...

    def check(self) -> None:
        if self.engine.error is not None:
            raise self.engine.error


class Env:
    """Ends after some turns."""

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self.place, self.turns = options["place"], 0
        return "?", {}

    async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        return str(self.turns), 1.0, self.turns == TURNS, False, {}


@pytest.fixture
def played(episodic: Project, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A function from environments, and how long each episode's turns take, to the batch and the engine."""

    def play(make_env: Any, delays: list[float], *overrides: str, error: Exception | None = None) -> Any:
        monkeypatch.setattr(episodic.module("custom.env_wrapper"), "make_env", make_env)
        config = episodic.config("local.env.max_turn_tokens=null", *overrides)
        seven = tokenizer("7<eos>")["input_ids"]
        engine = AtOnce(episodic, lambda contexts: [seven] * len(contexts), delays.__getitem__)
        engine.error = error
        rollouts = rollouts_of(episodic, config, tokenizer, OneProcess(), engine)
        infos = [{"place": place} for place in range(len(delays))]
        prompts = prompts_of(episodic, [tokenizer(PROMPT)["input_ids"]] * len(delays), infos)
        draws = episodic.module("run.seeds").drawing_from(1)
        with draws:
            return rollouts.generate(prompts), engine

    return play


def test_a_slow_environment_holds_no_other_up(played: Any) -> None:
    """The first one's answer comes when the last episode has ended: taking turns together it would never come."""
    over = asyncio.Event()

    class Waits(Env):
        async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            if self.place == 0 and not self.turns:
                await asyncio.wait_for(over.wait(), 20)
            result = await super().step(action)
            if self.place == 2 and result[2]:
                over.set()
            return result

    batch, engine = played(lambda settings: Waits(), [0.0] * 3)
    assert batch.non_tensor_batch["env_end"].tolist() == ["terminated"] * 3, batch.non_tensor_batch["env_error"]
    assert batch.non_tensor_batch["turns"].tolist() == [TURNS] * 3
    assert engine.calls == []  # no turn was written with others'


def test_turns_taken_together_give_the_same(played: Any) -> None:
    """That what is drawn depends on no clock is tested with a server."""
    alone, engine = played(lambda settings: Env(), [0.0, 0.02, 0.04])
    assert len({*engine.seeds.values()}) == 3 * TURNS
    together, engine = played(lambda settings: Env(), [0.0] * 3, "local.env.turn_by_turn=true")
    assert [len(contexts) for contexts, _ in engine.calls] == [3] * TURNS
    assert set(together.batch.keys()) == set(alone.batch.keys())
    for name in sorted(together.batch.keys()):
        assert together.batch[name].equal(alone.batch[name]), name


def test_the_engines_error_ends_all_episodes(played: Any, episodic: Project) -> None:
    given_up: list[int] = []

    class Hangs(Env):
        async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                given_up.append(self.place)
                raise
            raise AssertionError

    error = episodic.module("workers.rollout_interface").RolloutError("it has ended", "start it again")
    with pytest.raises(type(error), match="it has ended"):
        played(lambda settings: Hangs(), [0.0, 0.0], error=error)
    assert sorted(given_up) == [0, 1]
