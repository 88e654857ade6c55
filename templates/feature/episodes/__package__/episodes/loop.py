# vextract:template - edit freely
"""Episodes of several turns: the model writes, the environment answers, until it is done or the budget is spent.

responses:      |  model  |  environment  |  model  |  environment  |  model  |  padding  |
response_mask:  |  1 ... 1|  0 .........0 |  1 ... 1|  0 .........0 |  1 ... 1|  0 ..... 0|
attention_mask: |  1 ... 1|  1 .........1 |  1 ... 1|  1 .........1 |  1 ... 1|  0 ..... 0|

An episode begins and ends with the model. All that is trained is what the response mask shows: the losses,
advantages, values and KL terms of upstream leave the other tokens out. (Upstream: verl/experimental/agent_loop.)

Each episode goes on by itself: with an engine that writes beside what it is writing already, none waits for another.
"""

import asyncio
import contextlib
import hashlib
import importlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..data.steps import UnusableStep
from ..errors import ConfigError
from ..hooks import importing_hooks
from ..run.process import run_in
from ..run.seeds import SEEDS, draw_seeds
from ..training.model_words import ModelWords
from ..vendored.protocol import DataProto
from .environments import Environment, Environments, Failure, StepResult
from .episode import Episode, columns_of, episode_batch
from .observations import Observations
from .turns import TurnByTurn, Writer
from .words import text_of_turn

# How often it is asked whether the engine can still go on, while episodes wait.
CHECK_SECONDS = 0.2

# Is told the place of an episode that has ended, its tokens after the prompt, and its columns.
EpisodeEnded = Callable[[int, list[int], dict[str, Any]], None]


class EpisodeLoop:
    """Runs this process's episodes.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        engine: writes the model's turns.
        make_env: makes environments, as the hook of that name does; None: the hook.
    """

    def __init__(self, config: Any, tokenizer: Any, engine: Any, make_env: Any = None) -> None:
        rollout, env = config.actor_rollout_ref.rollout, config.local.env
        self.config = config
        self.seed = config.local.seed
        self.tokenizer = tokenizer
        self.engine = engine
        self.budget = rollout.response_length
        self.turn_limit = min(env.max_turn_tokens or self.budget, self.budget)
        self.max_model_turns = rollout.multi_turn.max_assistant_turns
        self.max_answers = rollout.multi_turn.max_user_turns
        template = config.data.get("apply_chat_template_kwargs")
        self.observations = Observations(tokenizer, env.observations, template, getattr(engine, "ends", None))
        self.words = ModelWords.of(config, tokenizer)
        self.words.ends.update(getattr(engine, "ends", ()))
        self.environments = Environments(env, make_env or _make_env(), config.data.get("env") or {})
        self.loop = asyncio.new_event_loop()  # one for all rollouts: an environment may hold on to connections

    def run(self, prompts: DataProto, ended: EpisodeEnded | None = None) -> DataProto:
        """Play an episode from each prompt. No process waits for another in here: their turns differ in number.

        Args:
            prompts: as for the rollout engine, with uid and extra_info, (bs,) objects, in the columns.
            ended: is told of each episode that has ended while others go on.

        Returns:
            What the engine returns for a single turn, response_mask (bs, response_length) int64, and these columns:
            turn_scores: the reward of each turn of the model, a list;
            turn_starts, turn_ends: the places of their first and their last tokens, lists;
            conversation: what the model and the environment have said, messages;
            env_info: what the environment reported last, a dict;
            env_end: terminated, truncated (both by the environment), turns_spent, budget_spent, error or timeout;
            env_error, env_error_file: what went wrong in the environment, and where, or "";
            env_seconds: how long any environment of this process was at work;
            turns: how many turns the model had; __num_turns__: with the environment's and the prompt, as upstream.
        """
        before = self.environments.seconds
        masks = prompts.batch["attention_mask"].bool()
        rows = zip(prompts.batch["input_ids"], masks, strict=True)
        episodes = [Episode(ids[mask].tolist()) for ids, mask in rows]
        tell = ended or (lambda *_: None)
        parts = list(zip(episodes, self._resets(prompts), strict=True))
        with writing(self.engine, self.tokenizer, self.config, prompts.meta_info, len(parts)) as (writer, seeds):
            plays = (self._play(place, *parts[place], seed, writer, tell) for place, seed in enumerate(seeds))
            run_in(self.loop, play_all(plays, writer))
        batch = episode_batch(prompts, episodes, self.budget, self.tokenizer.pad_token_id)
        batch.non_tensor_batch["env_seconds"] = np.full(len(episodes), self.environments.seconds - before)
        return batch

    def close(self) -> None:
        """Give back what the loop holds."""
        self.loop.close()

    async def _play(
        self,
        place: int,
        episode: Episode,
        reset: tuple[int, dict[str, Any]],
        seed: int,
        writer: Writer,
        ended: EpisodeEnded,
    ) -> None:
        """Play one episode to its end."""
        env = await self.environments.start(*reset)
        if isinstance(env, Failure):
            episode.failure = env  # it still gets one turn: nothing can be computed from an empty response
        while not episode.end:
            most = min(self.turn_limit, self.budget - len(episode.tokens))
            context = episode.prompt + episode.tokens
            turn, log_probs = await writer.write(place, context, most, turn_seed(seed, len(episode.scores)))
            action = text_of_turn(self.words, context, turn)
            episode.add_turn(turn, log_probs, action)
            if isinstance(env, Failure):
                episode.fail(env)
                break
            result = await self.environments.step(env, action)
            if isinstance(result, Failure):
                episode.fail(result)
            else:
                self._take(episode, env, turn, result)
        ended(place, episode.tokens, columns_of(episode))
        writer.leave()
        if not isinstance(env, Failure):
            await self.environments.close(env)

    def _resets(self, prompts: DataProto) -> list[tuple[int, dict[str, Any]]]:
        """Return the seed and the options of each environment: the same for the same prompt in the same step of a run.

        A row whose state comes from a seed names it in its extra_info, as `env_seed`.
        """
        columns, meta = prompts.non_tensor_batch, prompts.meta_info
        when = "validation" if meta.get("validate") else meta.get("global_steps", 0)
        uids = columns.get("uid", np.arange(len(prompts)))
        infos = [dict(info or {}) for info in columns.get("extra_info", [None] * len(prompts))]
        seeds = [info.get("env_seed") for info in infos]
        return [
            (episode_seed(self.seed, when, uid) if seed is None else int(seed), info)
            for uid, seed, info in zip(uids, seeds, infos, strict=True)
        ]

    def _take(self, episode: Episode, env: Environment, turn: list[int], result: StepResult) -> None:
        """Note the reward, and go on with the observation if anything can follow it."""
        episode.scores[-1] = result.reward
        episode.info = result.info
        if result.terminated or result.truncated:
            episode.end = "terminated" if result.terminated else "truncated"
        elif len(episode.scores) == self.max_model_turns or episode.answers == self.max_answers:
            episode.end = "turns_spent"
        else:
            try:
                answer = self.observations.follow(turn, result.observation)
                takes_back = self.observations.takes_back(turn, result.observation)
            except ConfigError:
                raise
            except Exception as error:  # for example, a role that the template does not know
                text = f"the observation {result.observation!r} cannot be rendered: {type(error).__name__}: {error}"
                episode.fail(Failure("error", text, UnusableStep(env, text).hook_file))
                return
            if not turn or len(episode.tokens) + len(answer) >= self.budget:
                episode.end = "budget_spent"  # no room for an answer to it: the episode ends with the model's turn
            else:
                if takes_back:
                    episode.take_back()
                episode.add_answer(answer, result.observation)


@contextlib.contextmanager
def writing(
    engine: Any, tokenizer: Any, config: Any, meta_info: dict[str, Any], episodes: int, at_once: int | None = None
) -> Iterator[tuple[Writer, Sequence[int]]]:
    """Give what writes the turns, each when it is asked for or all together, and a seed for each episode.

    Args:
        engine: the rollout engine.
        tokenizer: of the policy.
        config: the whole config; `local.env.turn_by_turn` is read.
        meta_info: of the prompts.
        episodes: how many are played.
        at_once: how many of them at once, if not all: the next begins where one has ended.
    """
    writer = None
    if not config.local.env.turn_by_turn and hasattr(engine, "writer"):
        writer = engine.writer(meta_info)
    if writer is None:
        yield TurnByTurn(engine, tokenizer.pad_token_id, meta_info, at_once or episodes), [0] * episodes
        return
    with writer as found:
        yield found, draw_seeds(episodes)


def episode_seed(run_seed: int, when: int | str, uid: object) -> int:
    """Make an environment's seed from the run's, the step (or "validation") and the prompt's uid; below 2**32."""
    return _digest(f"{run_seed}/{when}/{uid}", 4)


def turn_seed(seed: int, turn: int) -> int:
    """Make the seed of a turn from that of its episode, whenever it is written; below what `draw_seeds` draws."""
    return _digest(f"{seed}/{turn}", 8) % SEEDS


def _digest(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "big")


async def play_all(plays: Iterable[Coroutine[Any, Any, None]], writer: Writer) -> None:
    """Wait for all episodes; the first error that is none of an environment's ends them."""
    tasks = [asyncio.ensure_future(play) for play in plays]
    going_on = set(tasks)
    try:
        while going_on:
            done, going_on = await asyncio.wait(going_on, timeout=CHECK_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            writer.check()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _make_env() -> Any:
    with importing_hooks():
        hook = importlib.import_module("..custom.env_wrapper", __package__)
    if not hasattr(hook, "make_env"):
        raise ConfigError(
            "actor_rollout_ref.rollout.multi_turn.enable needs a function make_env in custom/env_wrapper.py",
            "def make_env(settings): return YourEnvironment(); settings is the config's data.env",
        )
    return hook.make_env
