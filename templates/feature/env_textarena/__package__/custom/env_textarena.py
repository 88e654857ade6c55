# vextract:hook  yours: written once, never touched by an upgrade
"""A game of TextArena, such as textarena:Mastermind-v0."""

import random
from collections.abc import Mapping
from typing import Any

import textarena
from textarena.envs.registration import ENV_REGISTRY

from ..episodes.actions import check_name, first_message, numbers_in, read_action


def make_env(name: str, settings: Mapping[str, Any]) -> "TextArenaEnv":
    """Return the game; `settings`: kwargs (of `textarena.make`), prompt, and players: how many, the model is 0."""
    check_name("TextArena", name, ENV_REGISTRY)
    return TextArenaEnv(name, settings)


class TextArenaEnv:
    """Shows what is new since the last turn; the reward is the game's, at its end."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings, self.draws = name, settings, random.Random().getstate()
        self.game = textarena.make(name, **(settings.get("kwargs") or {}))

    def others_turn(self, player: int, observation: str) -> str:
        """Return what another player says: yours to write, for games of more than one."""
        raise NotImplementedError("write what the other players say, in custom/env_textarena.py")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.played(self.game.reset, num_players=self.settings.get("players", 1), seed=seed)
        return first_message(self.settings, self.until_our_turn()), {}

    def step(self, turn: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = read_action(turn)
        self.played(self.game.step, action.text)
        said, state = action.answer(self.until_our_turn()), self.game.state
        reward = float(state.rewards[0]) if state.done else 0.0
        return said, reward, state.done, False, {**numbers_in(state.game_info[0]), "acc": float(reward >= 1)}

    def until_our_turn(self) -> str:
        state = self.game.state
        while not state.done and (player := state.current_player_id) != 0:
            self.played(self.game.step, self.others_turn(player, self.news(player)))
        return self.news(0)

    def news(self, player: int) -> str:
        seen, self.game.state.observations[player] = self.game.state.observations[player], []
        return "\n".join(text.strip() for sender, text, _ in seen if sender != player)

    def played(self, call: Any, *args: Any, **kwargs: Any) -> None:
        """Call the game, which seeds the random numbers of the whole program, with some of its own."""
        before = random.getstate()
        random.setstate(self.draws)
        try:
            call(*args, **kwargs)
        finally:
            self.draws = random.getstate()
            random.setstate(before)
