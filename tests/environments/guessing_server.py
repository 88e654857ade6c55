"""A server of OpenEnv: a number is to be guessed. `hang`, `die` and `raise` do what they say."""

import os
import random
import sys
import time

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    guess: str


class Said(Observation):
    said: str
    tries: int = 0


class Guessing(Environment[Guess, Said, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: object) -> Said:
        self.hidden, self.tries = random.Random(seed).randrange(5, 10), 0
        return Said(said=f"{self.hidden % 3}?")

    def step(self, action: Guess, timeout_s: float | None = None, **kwargs: object) -> Said:
        if action.guess == "hang":
            time.sleep(20)
        if action.guess == "die":
            os._exit(1)
        if action.guess == "raise":
            raise ValueError("unlucky")
        self.tries += 1
        right = action.guess == str(self.hidden)
        return Said(said="yes" if right else "no", tries=self.tries, done=right, reward=float(right))

    @property
    def state(self) -> State:
        return State(step_count=self.tries)


if __name__ == "__main__":
    os.environ["ENABLE_WEB_INTERFACE"] = "false"
    app = create_app(Guessing, Guess, Said, max_concurrent_envs=int(sys.argv[2]))
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
