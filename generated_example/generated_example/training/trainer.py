# vextract:template base/__package__/training/trainer.py - edit freely
"""The training loop: upstream's `RayPPOTrainer.fit`, in upstream's order and with upstream's metric names, without Ray.

Every number comes from a vendored function. One step is: prompts -> responses -> reward -> old log-probabilities ->
reference log-probabilities -> KL penalty -> advantages -> update -> metrics.
"""

import contextlib
import copy
import random
import weakref
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig

from ..errors import ConfigError
from ..hooks import ESTIMATOR, calling, check_advantages
from ..registries import compute_advantage
from ..run.distributed import Ranks, random_state, same_random_numbers, set_random_state
from ..run.process import without_running_loop
from ..tracking import timed
from ..tracking.terminal import validation_score
from ..vendored.algorithms.core_algos import agg_loss, get_kl_controller
from ..vendored.algorithms.metric_utils import compute_data_metrics, compute_throughout_metrics
from ..vendored.algorithms.trainer_functions import apply_kl_penalty
from ..vendored.protocol import DataProto
from ..workers.policy import Policy, Reference
from ..workers.role_configs import TAKES_OWN_LOG_PROBS
from ..workers.trained_model import reduce_over_ranks
from .assembly import assemble
from .batches import add_columns, group_metrics, reward_metrics, shown_rows
from .given import Given
from .rollouts import Answers, Metrics
from .run_loop import RunLoop
from .validation import answer_and_score, validation_metrics


class LocalPPOTrainer(RunLoop):
    """Trains a policy by PPO and its relatives, in one process or in several that all run this same loop.

    Whatever of data, rewards and models is not given is what the config says. `fit` takes the prompts and loads the
    models. A trainer holds a model and an engine: use it in a `with` statement, or `close` it.

    Args:
        config: the whole config, from `load_config`. It is copied.
        ranks: this process among its peers, of a program that ends with the run.
        given: what stands in place of what the config says, such as reward_fn; see `given.py`.

    Attributes:
        policy, reference, models, rollouts, reward_fn, val_reward_fn, train_loader, val_loader, checkpoints,
            total_steps, and others: see `training/assembly.py`. Those of the run: see `RunLoop`. They are there once
            the run is assembled: by `fit`, or where one of them is asked for.

    Raises:
        ConfigError: `config` is of another type, or an argument takes a feature.
    """

    tokenizer: Any
    policy: Policy
    reference: Reference | None
    reward_fn: Any
    val_reward_fn: Any
    val_loader: Any

    def __init__(self, config: Any, *, ranks: Ranks | None = None, **given: Any) -> None:
        if not isinstance(config, DictConfig):
            raise ConfigError(
                f"the config is of type {type(config).__name__}", "give what load_config() returns, with your settings"
            )
        self._given = Given.of(given)
        self.config = copy.deepcopy(config)
        self.ranks = ranks or Ranks.of_process(config)
        self._around = contextlib.ExitStack()
        if ranks is None:
            self._around.callback(self.ranks.close)
        self._end = weakref.finalize(self, self._around.close)
        self._is_assembled = False

    def __getattr__(self, name: str) -> Any:
        """Assemble the run where a part of it is asked for before `fit`."""
        if name.startswith("_") or self._is_assembled:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self.assemble()
        return getattr(self, name)

    def assemble(self, dataset: Any = None, val_dataset: Any = None) -> None:
        """Assemble the run, once: read the prompts and load the models.

        Args:
            dataset, val_dataset: prompts for training and validation, see `given.py`; None: what the config says.

        Raises:
            ConfigError: settings contradict each other, or what they name cannot be used; or there are prompts already.
            DataError: the data cannot be used.
            HookError: a hook cannot be imported, or raised.
        """
        self.require_open()
        if self._is_assembled:
            if dataset is not None or val_dataset is not None:
                raise ConfigError("the run has its prompts already", "give them to the first fit(), or make a trainer")
            return
        given = replace(self._given, train_dataset=dataset, val_dataset=val_dataset)
        self._is_assembled, before = True, copy.deepcopy(self.config)
        try:
            with contextlib.ExitStack() as around, without_running_loop():
                state = assemble(self, given, around)
                self._set_up_steps(state)
                self._around.push(around.pop_all())
        except BaseException:  # the next call may bring what was wrong
            self._is_assembled, self.config = False, before
            raise

    def _set_up_steps(self, state: tuple[Any, ...]) -> None:
        """Set up what belongs to the steps, from `state` if the run resumes."""
        config = self.config
        self.rollout_n = config.actor_rollout_ref.rollout.n
        self.kl_ctrl = get_kl_controller(config.algorithm.kl_ctrl)
        self.ids = random.Random(config.local.seed)
        self.answers = Answers(self)
        self.begin(state)

    def train_step(self, prompts: Any, timing: dict[str, float] | None = None) -> tuple[DataProto, Metrics]:
        """Do one step, from prompts to updated weights.

        The comments below name the phases, as in `timing`, and list what each adds to `batch.batch`. There are bs rows,
        `rollout.n` for each prompt; P and R are data.max_prompt_length and data.max_response_length.
        `batch.non_tensor_batch` has the columns of the prompts, `uid` (which prompt a row belongs to) and, after adv,
        what the reward says besides the score. Phases that the config does not need are skipped.

        Args:
            prompts: a batch of the data loader: tensors (prompts, max_prompt_length) and arrays of the other columns.
            timing: receives the seconds that each phase took.

        Returns:
            The global batch with everything that was computed for it, and the metrics so far.
        """
        self.require_open()
        metrics: Metrics = {}
        ranks, step = self.ranks, self.steps_done + 1
        timing = {} if timing is None else timing
        self._seed = f"{self.config.local.seed} {self.steps_done}"  # the same on all processes, whatever their number
        with timed("step", timing), without_running_loop():
            # gen: `prompts` (bs, P), `responses` and `response_mask` (bs, R), and of both together `input_ids`,
            # `attention_mask` and `position_ids` (bs, P + R), int64; maybe `rollout_log_probs` (bs, R) float32.
            batch = self.answers.answer(prompts, timing, metrics)
            batch.meta_info["global_token_num"] = batch.batch["attention_mask"].sum(dim=-1).tolist()
            with timed("reward", timing):
                reward = self.answers.score(batch)

            # old_log_prob: `old_log_probs` and `entropys` (bs, R) float32, of the policy before the update.
            is_known = self._needs_old_log_probs(len(batch))
            if is_known:
                with timed("old_log_prob", timing):
                    output = ranks.spread(self.policy.compute_log_prob, batch)
                    mode = self.config.actor_rollout_ref.actor.loss_agg_mode
                    entropys = output.batch["entropys"]
                    metrics["actor/entropy"] = agg_loss(entropys, batch.batch["response_mask"], mode).item()
                    batch = batch.union(output)

            # ref: `ref_log_prob` (bs, R) float32, for a KL penalty or loss.
            if self.reference is not None:
                with timed("ref", timing):
                    batch = batch.union(ranks.spread(self.reference.compute_log_prob, batch))

            # adv: `token_level_scores`, `token_level_rewards`, `advantages` and `returns` (bs, R) float32.
            with timed("adv", timing):
                batch, advantage_metrics = self._advantages(batch, reward)
                metrics.update(advantage_metrics)

            # update_actor: the policy learns, and the engine gets its weights.
            with timed("update_actor", timing):
                with same_random_numbers(f"{self._seed} actor"):
                    actor_metrics = self.policy.update(batch)
                metrics.update(reduce_over_ranks(actor_metrics, ranks))
                self.policy.require_usable(ranks)
                self.rollouts.sync_weights()
        metrics.update(compute_data_metrics(batch, use_critic=False))
        metrics.update(compute_throughout_metrics(batch, timing, n_gpus=ranks.world_size))
        self.steps_done, self.score = step, None
        return batch, metrics

    @without_running_loop()
    def validate(self, loader: Any = None) -> Metrics:
        """Answer the validation prompts and score the answers. Leaves the global random state as it was."""
        self.require_open()
        before = random_state()
        rows, infos = answer_and_score(self, self.val_loader if loader is None else loader)
        metrics = validation_metrics(rows, infos)
        set_random_state(before)
        self.score = validation_score(metrics)
        self.tracker.log_generations(shown_rows(rows, self.config.trainer.log_val_generations), self.steps_done)
        return metrics

    def _needs_old_log_probs(self, responses: int) -> bool:
        """Tell whether anything uses, or the config asks for, the policy's log-probabilities before the update."""
        asked = self.config.local.recompute_old_log_probs or self.config.algorithm.use_kl_in_reward
        actor = self.config.actor_rollout_ref.actor
        is_only_update = responses <= actor.ppo_mini_batch_size * self.rollout_n and actor.ppo_epochs == 1
        return bool(asked or not (TAKES_OWN_LOG_PROBS and is_only_update))

    def _advantages(self, batch: DataProto, reward: Any) -> tuple[DataProto, Metrics]:
        """Add the reward, and from it `advantages` and `returns`, (bs, response_length), over the global batch."""
        algorithm = self.config.algorithm
        scores, extra = reward
        metrics: Metrics = {**reward_metrics(extra), **group_metrics(batch.non_tensor_batch["uid"], scores)}
        batch.batch["token_level_scores"] = scores
        add_columns(batch, extra)
        if algorithm.use_kl_in_reward:
            batch, kl_metrics = apply_kl_penalty(batch, kl_ctrl=self.kl_ctrl, kl_penalty=algorithm.kl_penalty)
            metrics.update(kl_metrics)
        else:
            batch.batch["token_level_rewards"] = scores
        with calling(ESTIMATOR, algorithm.adv_estimator), same_random_numbers(f"{self._seed} advantages"):
            batch = compute_advantage(
                batch,
                adv_estimator=algorithm.adv_estimator,
                gamma=algorithm.gamma,
                lam=algorithm.lam,
                num_repeat=self.rollout_n,
                norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
                config=algorithm,
            )
        check_advantages(batch, algorithm.adv_estimator, self.tokenizer)
        return batch, metrics
