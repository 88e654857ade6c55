# vextract:hook  yours: written once, never touched by an upgrade
"""A text environment of several turns, with Gymnasium's interface: guess a hidden digit, told higher or lower.

Replace `GuessDigitEnv` by your own environment, or wrap an existing one, and let `make_env` return it: the other files
take nothing else from here. Whatever has `reset` and `step` in the shapes below works; `states(split, settings)` may
list the states to begin from, and without it they come from seeds. Nothing here needs Gymnasium to be installed, or
imports anything of this package.

The model and the environment take turns (`actor_rollout_ref.rollout.multi_turn.enable`). Each response has an
environment of its own; it begins with `reset(seed=..., options=extra_info of the prompt's row)`, and must then be in
the state that the prompt shows. `step(text of the model's turn)` returns what follows:

    observation   text, the next message to the model; or a list of messages, {"role": "tool", "content": ...}
    reward        a number, for this turn; the episode's reward is their sum
    terminated    the episode is over, it has reached its end
    truncated     the episode is over, it was cut short
    info          numbers and texts to report; those of the last step become reward/<name>/mean, `acc` is what
                  validation reports

`reset` and `step` may be coroutines (`async def`): those of a batch then run at once. What one raises costs its own
sample. `close()` is called at the end if there is one.
"""

import random
from collections.abc import Mapping
from typing import Any


def make_env(settings: Mapping[str, Any]) -> "GuessDigitEnv":
    """Return an environment for one episode.

    Args:
        settings: the config's `data.env`: what you put there, for example +data.env.board_size=9.
    """
    return GuessDigitEnv(max_turns=settings.get("max_turns", 4))


class GuessDigitEnv:
    """A digit is hidden; each guess is answered with `+` (it is higher), `-` (it is lower) or the end of the episode.

    Whoever guesses once is right one time in ten, whatever the strategy. Whoever uses the answers finds every digit in
    four guesses, by halving what is left. The prompt is the same for all digits: nothing but the answers tells them
    apart.

    Args:
        max_turns: how many guesses an episode may take.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(self, max_turns: int = 4) -> None:
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {max_turns}")
        self.max_turns = max_turns
        self._random: Any = random  # the global one, or one of its own that is seeded
        self._hidden: int | None = None
        self._turn = 0
        self._done = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Hide a digit.

        Args:
            seed: seeds its choice; without it the choice goes on from where it was.
            options: `{"digit": 7}` hides that one instead.

        Returns:
            The observation, `?`, which is also the prompt, and `{"ground_truth": "7", "turn": 0}`.
        """
        if seed is not None:
            self._random = random.Random(seed)
        digit = (options or {}).get("digit")
        self._hidden = self._random.randrange(10) if digit is None else int(digit)
        self._turn = 0
        self._done = False
        return "?", {"ground_truth": str(self._hidden), "turn": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a guess.

        Args:
            action: what the model wrote, for example `"5"`.

        Returns:
            observation: `+` or `-`; `!` if the action is not one digit; empty at the end of the episode.
            reward: 1.0 for the right digit, else 0.0.
            terminated: the guess was right.
            truncated: it was wrong and no turn is left.
            info: acc (1.0 if right, else 0.0), format (1.0 if the action is one digit, else 0.0) and the turn.
        """
        if self._hidden is None or self._done:
            raise RuntimeError("call reset() before step(): there is no running episode")
        self._turn += 1
        action = action.strip()
        is_digit = len(action) == 1 and action in "0123456789"
        terminated = is_digit and int(action) == self._hidden
        truncated = not terminated and self._turn >= self.max_turns
        self._done = terminated or truncated
        if self._done:
            observation = ""
        elif is_digit:
            observation = "+" if int(action) < self._hidden else "-"
        else:
            observation = "!"
        info = {"acc": float(terminated), "format": float(is_digit), "turn": self._turn}
        return observation, float(terminated), terminated, truncated, info

    def states(self, split: str, settings: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """List the states that prompts are made of: each digit once for validation, ten times for training.

        Returns:
            The name of the data source, which validation reports under, and the options of `reset` for each state.
        """
        return "guess_digit", [{"digit": index % 10} for index in range(10 if split == "val" else 100)]

    def render(self) -> str:
        """Return the turn as text; the digit is hidden here too."""
        return f"? (turn {self._turn} of {self.max_turns})"

    def close(self) -> None:
        """Release what the environment holds: nothing here."""
