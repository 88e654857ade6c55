"""Episodes with an engine that writes beside what it is writing already: none waits for another."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.environments.support import OneProcess, Project, Scripted, prompts_of, rollouts_of

EPISODES = TURNS = 3


class AtOnce(Scripted):
    """The scripted engine, which also writes each turn as soon as it is asked for."""

    error: Exception | None = None

    @contextlib.contextmanager
    def writer(self, meta_info: dict[str, Any]) -> Iterator[Any]:
        self.seeds: set[int] = set()
        yield SimpleNamespace(write=self._write_turn, leave=lambda: None, check=self._check)

    async def _write_turn(self, episode: int, context: list[int], max_tokens: int, seed: int) -> Any:
        self.seeds.add(seed)
        await asyncio.sleep(0.02 * episode)
        tokens = self.write([context])[0][:max_tokens]
        return tokens, [-float(token) for token in tokens]

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


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
    """A function from a class of environments to the batch and the engine."""

    def play(kind: type[Env], *overrides: str, error: Exception | None = None) -> Any:
        monkeypatch.setattr(episodic.module("custom.env_wrapper"), "make_env", lambda settings: kind())
        config = episodic.config("local.env.max_turn_tokens=null", *overrides)
        seven = tokenizer("7<eos>")["input_ids"]
        engine = AtOnce(episodic, lambda contexts: [seven] * len(contexts))
        engine.error = error
        rollouts = rollouts_of(episodic, config, tokenizer, OneProcess(), engine)
        infos = [{"place": place} for place in range(EPISODES)]
        prompts = prompts_of(episodic, [tokenizer("<user>?<assistant>")["input_ids"]] * EPISODES, infos)
        with episodic.module("run.seeds").drawing_from(1):
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

    batch, engine = played(Waits)
    assert batch.non_tensor_batch["env_end"].tolist() == ["terminated"] * 3, batch.non_tensor_batch["env_error"]
    assert batch.non_tensor_batch["turns"].tolist() == [TURNS] * 3
    assert engine.calls == []  # no turn was written with others'


def test_turns_taken_together_give_the_same(played: Any) -> None:
    """That what is drawn depends on no clock is tested with a server."""
    alone, engine = played(Env)
    assert len(engine.seeds) == EPISODES * TURNS
    together, engine = played(Env, "local.env.turn_by_turn=true")
    assert [len(contexts) for contexts, _ in engine.calls] == [EPISODES] * TURNS
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
        played(Hangs, error=error)
    assert sorted(given_up) == [0, 1, 2]
