# vextract:hook  yours: written once, never touched by an upgrade
"""A text environment with Gymnasium's interface: `reset` gives an observation, `step` scores an action.

Replace `ToyArithmeticEnv` by your own environment, or wrap an existing one, and let `make_env` return it: the other
files take nothing else from here. Whatever has `reset` and `step` in the shapes below works with `env_dataset.py`
(which turns states into prompts) and, for a single turn, `reward_manager.py` (which plays each response as an action).
`states(split, settings)` may list the states to begin from; without it they come from seeds. Nothing here needs
Gymnasium to be installed, or imports anything of this package.

With `actor_rollout_ref.rollout.multi_turn.enable=true` the model and the environment take turns. Each response has an
environment of its own, from `make_env`; it begins with `reset(seed=..., options=extra_info of the prompt's row)`, and
must then be in the state that the prompt shows. `step(text of the model's turn)` returns what follows:

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
import re
from collections.abc import Mapping
from typing import Any


def make_env(settings: Mapping[str, Any]) -> "ToyArithmeticEnv":
    """Return an environment for one episode of several turns.

    Args:
        settings: the config's `data.env`: what you put there, for example +data.env.board_size=9.
    """
    return ToyArithmeticEnv(settings.get("task", "succ2"), max_turns=settings.get("max_turns", 1))


class ToyArithmeticEnv:
    """Exercises in digits. Each right character earns a share of the reward.

    Tasks:
        succ2: `37=` -> `48`, the successor of each of two digits (9 -> 0). 100 states; what is learned on some of
            them carries over to the others, so held-out questions measure more than memory.
        add1: `3+9=` -> `2`, the sum modulo 10. 100 states. A small model learns them by heart: of the held-out
            sums it gets those right whose mirror image (`9+3=`) it was trained on, and hardly any other.
        succ: `3=` -> `4`. 10 states, too few to hold any out.

    Args:
        task: one of the above.
        max_turns: how many actions an episode may take. After a wrong one, and while turns are left, the next
            observation repeats the question with a hint: the first character of the answer.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}
    tasks = {
        "add1": [f"{a}+{b}=" for a in range(10) for b in range(10)],
        "succ": [f"{a}=" for a in range(10)],
        "succ2": [f"{a}{b}=" for a in range(10) for b in range(10)],
    }

    def __init__(self, task: str = "succ2", max_turns: int = 1) -> None:
        if task not in self.tasks:
            raise ValueError(f"unknown task {task!r}: choose one of {', '.join(self.tasks)}")
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {max_turns}")
        self.task, self.questions, self.max_turns = task, self.tasks[task], max_turns
        self._random: random.Random | None = None
        self._question: str | None = None
        self._turn = 0
        self._done = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seeds the choice of the question; without it the choice goes on from where it was.
            options: `{"question": "37="}` starts from that state instead of a random one.

        Returns:
            The observation (the question, which is also the prompt) and `{"ground_truth": ..., "turn": 0}`.
        """
        if seed is not None:
            self._random = random.Random(seed)
        question = (options or {}).get("question")
        if question is None:
            self._random = self._random or random.Random()
            question = self._random.choice(self.questions)
        self._question = str(question)
        self._turn = 0
        self._done = False
        return self._question, {"ground_truth": self.answer(self._question), "turn": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the model's answer.

        Args:
            action: the answer as text, for example `"48"`.

        Returns:
            observation: the next prompt: empty at the end of the episode, else the question with a hint.
            reward: in [0, 1], see `score`.
            terminated: the answer was right.
            truncated: it was wrong and no turn is left.
            info: the components of the reward, as in `score`, and the turn.
        """
        if self._question is None or self._done:
            raise RuntimeError("call reset() before step(): there is no running episode")
        self._turn += 1
        components = self.score(self.answer(self._question), action)
        terminated = components["acc"] == 1.0
        truncated = not terminated and self._turn >= self.max_turns
        self._done = terminated or truncated
        observation = "" if self._done else f"{self._question}{self.answer(self._question)[0]}?"
        return observation, components["score"], terminated, truncated, {**components, "turn": self._turn}

    def render(self) -> str:
        """Return the question and the turn as text."""
        return f"{self._question} (turn {self._turn} of {self.max_turns})"

    def close(self) -> None:
        """Release what the environment holds: nothing here."""

    @staticmethod
    def answer(question: str) -> str:
        """Return the right answer to a question of any task."""
        text = question.removesuffix("=")
        if "+" in text:
            return str(sum(int(term) for term in text.split("+")) % 10)
        return "".join(str((int(digit) + 1) % 10) for digit in text)

    @staticmethod
    def score(expected: str, action: str) -> dict[str, float]:
        """Score an answer against the expected one.

        Returns:
            score: the reward in [0, 1]: right characters at their place, over the longer of the two lengths.
            acc: 1.0 if the answer is right, else 0.0.
            format: 1.0 if the answer is made of digits only, else 0.0; reported, not rewarded.
        """
        right = sum(given == wanted for given, wanted in zip(action, expected, strict=False))
        return {
            "score": right / max(len(action), len(expected), 1),
            "acc": float(action == expected),
            "format": float(re.fullmatch(r"\d+", action) is not None),
        }

    def states(self, split: str, settings: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """List the states that prompts are made of: those to train on, or some others to validate on.

        A task with too few states to hold any out validates on the training questions, and says so.

        Args:
            split: "train" or "val".
            settings: the config's `data.env`: val_size, seed.

        Returns:
            The name of the data source, which validation reports under, and the options of `reset` for each state.
        """
        source, val_size = f"toy_{self.task}", settings.get("val_size", 20)
        held_out = set[str]()
        if 0 < val_size <= len(self.questions) / 5:
            held_out = set(random.Random(settings.get("seed", 0)).sample(self.questions, val_size))
        if split == "val":
            source += "_held_out" if held_out else "_seen"
            if not held_out:
                print(f"note: {self.task} holds no questions out: validation ({source}) shows only what was memorised")
        chosen = sorted(held_out) if split == "val" and held_out else [q for q in self.questions if q not in held_out]
        return source, [{"question": question} for question in chosen]
