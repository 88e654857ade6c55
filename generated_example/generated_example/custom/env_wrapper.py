# vextract:hook  yours: written once, never touched by an upgrade
"""A text environment with Gymnasium's interface: `reset` gives an observation, `step` scores an action.

Replace `ToyArithmeticEnv` by your own environment, or wrap an existing one, and let `make_env` return it: the other
files take nothing else from here. Whatever has `reset` and `step` in the shapes below works with `env_dataset.py`
(which turns states into prompts) and `reward_manager.py` (which plays each response as an action).
`states(split, settings)` may list the states to begin from; without it they come from seeds. Nothing here needs
Gymnasium to be installed, or imports anything of this package.

A response is the only action in its state: `reset(seed=..., options=extra_info of the prompt's row)`, then
`step(text of the response)`, which returns observation, reward, terminated, truncated and info. Of these count the
reward, a number, and info: numbers and texts to report, as reward/<name>/mean; `acc` is what validation reports.
"""

import random
import re
from collections.abc import Mapping
from typing import Any


def make_env(settings: Mapping[str, Any]) -> "ToyArithmeticEnv":
    """Return an environment for one response.

    Args:
        settings: the config's `data.env`: what you put there, for example +data.env.board_size=9.
    """
    return ToyArithmeticEnv(settings.get("task", "succ2"))


class ToyArithmeticEnv:
    """Exercises in digits. Each right character earns a share of the reward.

    Args:
        task: succ2: `37=` -> `48`, the successor of each of two digits (9 -> 0); what is learned on some of the 100
            states carries over to the others. add1: `3+9=` -> `2`, the sum modulo 10, which a small model learns by
            heart. succ: `3=` -> `4`; 10 states, too few to hold any out.
    """

    tasks = {
        "add1": [f"{a}+{b}=" for a in range(10) for b in range(10)],
        "succ": [f"{a}=" for a in range(10)],
        "succ2": [f"{a}{b}=" for a in range(10) for b in range(10)],
    }

    def __init__(self, task: str = "succ2") -> None:
        if task not in self.tasks:
            raise ValueError(f"unknown task {task!r}: choose one of {', '.join(self.tasks)}")
        self.task, self.questions = task, self.tasks[task]
        self._random: Any = random  # the global one, or one of its own that is seeded
        self._expected: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Ask a question.

        Args:
            seed: seeds the choice of the question; without it the choice goes on from where it was.
            options: `{"question": "37="}` starts from that state instead of a random one.

        Returns:
            The observation (the question, which is also the prompt) and `{"ground_truth": ..., "turn": 0}`.
        """
        if seed is not None:
            self._random = random.Random(seed)
        question = str((options or {}).get("question") or self._random.choice(self.questions))
        self._expected = self.answer(question)
        return question, {"ground_truth": self._expected, "turn": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the model's answer.

        Args:
            action: the answer as text, for example `"48"`.

        Returns:
            observation (nothing follows), reward in [0, 1] (right characters at their place, over the longer of the two
            lengths), terminated (always, a response is the only action), truncated (never), and info: acc, 1.0 if the
            answer is right; format, 1.0 if it is made of digits only, which is reported, not rewarded; and the turn.
        """
        if self._expected is None:
            raise RuntimeError("call reset() before step(): there is no question")
        expected, self._expected = self._expected, None
        right = sum(given == wanted for given, wanted in zip(action, expected, strict=False))
        reward = right / max(len(action), len(expected), 1)
        made_of_digits = re.fullmatch(r"\d+", action) is not None
        return "", reward, True, False, {"acc": float(action == expected), "format": float(made_of_digits), "turn": 1}

    @staticmethod
    def answer(question: str) -> str:
        """Return the right answer to a question of any task."""
        text = question.removesuffix("=")
        if "+" in text:
            return str(sum(int(term) for term in text.split("+")) % 10)
        return "".join(str((int(digit) + 1) % 10) for digit in text)

    def states(self, split: str, settings: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """List the states that prompts are made of: those to train on, or some others to validate on.

        A task with too few states to hold any out validates on the training questions, and says so.

        Args:
            split: "train" or "val".
            settings: the config's `data.env`: val_size, seed.

        Returns:
            The name of the data source, which validation reports under, and the options of `reset` for each state.
        """
        source, chosen, val_size = f"toy_{self.task}", self.questions, settings.get("val_size", 20)
        if 0 < val_size <= len(self.questions) / 5:
            held_out = sorted(random.Random(settings.get("seed", 0)).sample(self.questions, val_size))
            chosen = held_out if split == "val" else [q for q in self.questions if q not in held_out]
            source += "_held_out" if split == "val" else ""
        elif split == "val":
            source += "_seen"
            print(f"note: {self.task} holds no questions out: validation ({source}) shows only what was memorised")
        return source, [{"question": question} for question in chosen]
