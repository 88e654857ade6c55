# vextract:template base/__package__/episodes/loop.py - edit freely
"""Episodes of several turns: the model writes, the environment answers, until it is done or the budget is spent.

responses:      |  model  |  environment  |  model  |  environment  |  model  |  padding  |
response_mask:  |  1 ... 1|  0 .........0 |  1 ... 1|  0 .........0 |  1 ... 1|  0 ..... 0|
attention_mask: |  1 ... 1|  1 .........1 |  1 ... 1|  1 .........1 |  1 ... 1|  0 ..... 0|

An episode begins and ends with the model. All that is trained is what the response mask shows: the losses,
advantages, values and KL terms of upstream leave the other tokens out. (Upstream: verl/experimental/agent_loop.)
"""

import asyncio
import hashlib
import importlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import ConfigError
from ..tracking.timing import advance, expect, under_way
from ..training.batches import objects
from ..training.hook_calls import importing_hooks
from ..vendored.protocol import DataProto
from .environments import Environment, Environments, Failure, StepResult, unusable
from .observations import Observations


@dataclass
class Episode:
    """One episode as it grows.

    Attributes:
        prompt: tokens, without padding.
        tokens: what came after: the model's and the environment's.
        sampled: for each of them, whether the model wrote it.
        log_probs: for each, the log-probability that the engine gave it; 0 where the environment wrote.
        scores: the reward of each turn of the model.
        turn_ends: for each turn of the model, the place in `tokens` of its last token.
        answers: how often the environment has answered.
        info: what the environment reported last.
        end: why the episode ended; "" while it goes on.
        error: what went wrong in the environment.
    """

    prompt: list[int]
    env: Environment | None = None
    failure: Failure | None = None
    tokens: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    turn_ends: list[int] = field(default_factory=list)
    answers: int = 0
    info: dict[str, Any] = field(default_factory=dict)
    end: str = ""

    def add(self, tokens: list[int], *, sampled: bool, log_probs: list[float] | None = None) -> None:
        """Append tokens of the model or of the environment."""
        self.tokens += tokens
        self.sampled += [int(sampled)] * len(tokens)
        self.log_probs += log_probs or [0.0] * len(tokens)

    def fail(self, failure: Failure) -> None:
        """End the episode because its environment is of no more use."""
        self.failure = failure
        self.end = failure.kind


class EpisodeLoop:
    """Runs this process's episodes, a turn of all of them at a time.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        engine: writes the model's turns.
        make_env: makes environments, as the hook of that name does; None: the hook.
    """

    def __init__(self, config: Any, tokenizer: Any, engine: Any, make_env: Any = None) -> None:
        rollout, env = config.actor_rollout_ref.rollout, config.local.env
        self.seed = config.local.seed
        self.tokenizer = tokenizer
        self.engine = engine
        self.budget = rollout.response_length
        self.turn_limit = min(env.max_turn_tokens or self.budget, self.budget)
        self.max_model_turns = rollout.multi_turn.max_assistant_turns
        self.max_answers = rollout.multi_turn.max_user_turns
        self.observations = Observations(tokenizer, env.observations, config.data.get("apply_chat_template_kwargs"))
        self.environments = Environments(env, make_env or _make_env(), config.data.get("env") or {})
        self.has_log_probs = False
        self.loop = asyncio.new_event_loop()  # one for all rollouts: an environment may hold on to connections

    def run(self, prompts: DataProto) -> DataProto:
        """Play an episode from each prompt. No process waits for another in here: their turns differ in number.

        Args:
            prompts: as for the rollout engine, with uid and extra_info, (bs,) objects, in the columns.

        Returns:
            What the engine returns for a single turn, response_mask (bs, response_length) int64, and these columns:
            turn_scores, turn_ends: the reward of each turn of the model, and the place of its last token: lists;
            env_info: what the environment reported last, a dict;
            env_end: terminated, truncated (both by the environment), turns_spent, budget_spent, error or timeout;
            env_error, env_error_file: what went wrong in the environment, and where, or "";
            env_seconds: what all environments of this process took together;
            turns: how many turns the model had; __num_turns__: with the environment's and the prompt, as upstream.
        """
        return self.loop.run_until_complete(self._run(prompts))

    def close(self) -> None:
        """Give back what the loop holds."""
        self.loop.close()

    async def _run(self, prompts: DataProto) -> DataProto:
        before = self.environments.seconds
        masks = prompts.batch["attention_mask"].bool()
        rows = zip(prompts.batch["input_ids"], masks, strict=True)
        episodes = [Episode(ids[mask].tolist()) for ids, mask in rows]
        started = await self.environments.start(self._resets(prompts))
        for episode, env in zip(episodes, started, strict=True):
            if isinstance(env, Failure):
                episode.failure = env  # it still gets one turn: nothing can be computed from an empty response
            else:
                episode.env = env
        active, turns = episodes, 0
        expect(len(episodes), "episodes")
        while active:
            turns += 1
            with under_way(f"turn {turns}"):
                await self._turn(active, prompts.meta_info)
            going_on = [episode for episode in active if not episode.end]
            advance(len(active) - len(going_on))
            active = going_on
        await self.environments.close([episode.env for episode in episodes if episode.env and not episode.failure])
        return self._batch(prompts, episodes, self.environments.seconds - before)

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

    async def _turn(self, episodes: list[Episode], meta_info: dict[str, Any]) -> None:
        """Play one turn of the model in each episode, and have its environment answer."""
        playing: list[tuple[Episode, Environment, list[int]]] = []
        for episode, (tokens, log_probs) in zip(episodes, self._write(episodes, meta_info), strict=True):
            episode.add(tokens, sampled=True, log_probs=log_probs)
            episode.turn_ends.append(max(len(episode.tokens) - 1, 0))
            episode.scores.append(0.0)
            if episode.env is not None:
                playing.append((episode, episode.env, tokens))
            elif episode.failure is not None:
                episode.fail(episode.failure)
        if not playing:
            return
        actions = self.tokenizer.batch_decode([tokens for _, _, tokens in playing], skip_special_tokens=True)
        pairs = [(env, action) for (_, env, _), action in zip(playing, actions, strict=True)]
        for (episode, env, tokens), result in zip(playing, await self.environments.step(pairs), strict=True):
            if isinstance(result, Failure):
                episode.fail(result)
            else:
                self._take(episode, env, tokens, result)

    def _write(self, episodes: list[Episode], meta_info: dict[str, Any]) -> list[tuple[list[int], list[float] | None]]:
        """Return what the model writes next in each episode: at most as many tokens as a turn and the budget allow."""
        left = [min(self.turn_limit, self.budget - len(episode.tokens)) for episode in episodes]
        limit = max(left)
        contexts = [episode.prompt + episode.tokens for episode in episodes]
        meta_info = {**meta_info, "response_length": limit}
        output = self.engine.generate_sequences(context_batch(contexts, self.tokenizer.pad_token_id, meta_info)).batch
        responses = output["responses"][:, :limit]
        mask = output["attention_mask"][:, -output["responses"].shape[1] :][:, :limit]
        # A row whose budget ends before the others' is cut: its tokens do not depend on those that would follow.
        lengths = [min(length, most) for length, most in zip(mask.sum(dim=-1).tolist(), left, strict=True)]
        log_probs = output.get("rollout_log_probs")
        self.has_log_probs = log_probs is not None
        return [
            (responses[row, :length].tolist(), None if log_probs is None else log_probs[row, :length].tolist())
            for row, length in enumerate(lengths)
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
            except ConfigError:
                raise
            except Exception as error:  # for example, a role that the template does not know
                text = f"the observation {result.observation!r} cannot be rendered: {type(error).__name__}: {error}"
                episode.fail(unusable(env, text))
                return
            if not turn or len(episode.tokens) + len(answer) >= self.budget:
                episode.end = "budget_spent"  # no room for an answer to it: the episode ends with the model's turn
            else:
                episode.add(answer, sampled=False)
                episode.answers += 1

    def _batch(self, prompts: DataProto, episodes: list[Episode], seconds: float) -> DataProto:
        """Return the episodes as a rollout engine returns responses."""
        length, pad = self.budget, self.tokenizer.pad_token_id
        responses = torch.tensor([_padded(e.tokens, length, pad) for e in episodes])
        valid = torch.tensor([_padded([1] * len(e.tokens), length, 0) for e in episodes])
        ids, mask, positions = (prompts.batch[name].cpu() for name in ("input_ids", "attention_mask", "position_ids"))
        tensors = {
            "prompts": ids,
            "responses": responses,
            "response_mask": torch.tensor([_padded(e.sampled, length, 0) for e in episodes]),
            "input_ids": torch.cat([ids, responses], dim=-1),
            "attention_mask": torch.cat([mask, valid.to(mask.dtype)], dim=-1),
            "position_ids": torch.cat([positions, positions[:, -1:] + torch.arange(1, length + 1)], dim=-1),
        }
        if self.has_log_probs:
            tensors["rollout_log_probs"] = torch.tensor([_padded(e.log_probs, length, 0.0) for e in episodes])
        columns = {
            "turn_scores": objects(e.scores for e in episodes),
            "turn_ends": objects(e.turn_ends for e in episodes),
            "env_info": objects(e.info for e in episodes),
            "env_end": objects(e.end for e in episodes),
            "env_error": objects(e.failure.message if e.failure else "" for e in episodes),
            "env_error_file": objects(e.failure.where if e.failure else "" for e in episodes),
            "env_seconds": np.full(len(episodes), seconds),
            "turns": np.array([len(e.scores) for e in episodes]),
            "__num_turns__": np.array([len(e.scores) + e.answers + 1 for e in episodes]),
        }
        return DataProto.from_dict(tensors, columns)


def episode_seed(run_seed: int, when: int | str, uid: object) -> int:
    """Make an environment's seed from the run's, the step (or "validation") and the prompt's uid; below 2**32."""
    digest = hashlib.blake2b(f"{run_seed}/{when}/{uid}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def context_batch(contexts: list[list[int]], pad_token_id: int, meta_info: dict[str, Any]) -> DataProto:
    """Pad token lists, as prompts for an engine: (bs, longest) int64, padded on the left."""
    width = max(len(tokens) for tokens in contexts)
    input_ids = torch.tensor([[pad_token_id] * (width - len(tokens)) + tokens for tokens in contexts])
    lengths = torch.tensor([len(tokens) for tokens in contexts])
    positions = (torch.arange(width) - (width - lengths)[:, None]).clamp(min=0)
    mask = (torch.arange(width) >= (width - lengths)[:, None]).long()
    tensors = {"input_ids": input_ids, "attention_mask": mask, "position_ids": positions}
    return DataProto.from_dict(tensors, {"raw_prompt_ids": objects(contexts)}, meta_info)


def _make_env() -> Any:
    with importing_hooks():
        hook = importlib.import_module("..custom.env_wrapper", __package__)
    if not hasattr(hook, "make_env"):
        raise ConfigError(
            "actor_rollout_ref.rollout.multi_turn.enable needs a function make_env in custom/env_wrapper.py",
            "def make_env(settings): return YourEnvironment(); settings is the config's data.env",
        )
    return hook.make_env


def _padded(values: list[Any], length: int, value: Any) -> list[Any]:
    return values + [value] * (length - len(values))
