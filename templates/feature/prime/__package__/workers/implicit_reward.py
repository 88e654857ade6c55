# vextract:template - edit freely
"""The implicit reward model of PRIME: a language model that is trained beside the policy."""

import copy
from typing import Any

import torch
from omegaconf import OmegaConf, open_dict

from ..run.distributed import Ranks
from ..training.process_advantages import row_losses
from ..vendored.protocol import DataProto
from .implicit_updates import update_by
from .policy import Policy, on_device

# What the actor has besides, and this model does not.
WITHOUT = {"entropy_coeff": 0.0, "use_kl_loss": False, "ppo_epochs": 1}


class ImplicitReward(Policy):
    """A language model whose log-probabilities, over those of the reference, are a reward for each token.

    It is read, shared out, trained and saved as the policy is, by an adapter if the policy is.

    Args:
        config: the whole config.
        path: where its weights are: a checkpoint; None: the configured model.
        total_steps: of the run, for the learning rate.
    """

    section_name, optim_name = "local.prime", "local.prime.optim"

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, path: str | None, total_steps: int) -> None:
        self.section = config.local.prime
        own = copy.deepcopy(config)
        settings: Any = OmegaConf.to_container(self.section, resolve=True)
        start = settings["path"] or config.actor_rollout_ref.model.path
        actor = own.actor_rollout_ref.actor
        with open_dict(own):
            own.actor_rollout_ref.model.path = start
            actor.update({name: value for name, value in settings.items() if name in actor} | WITHOUT)
        super().__init__(own, tokenizer, ranks, path or start, total_steps)
        self._ranks = ranks

    def rewards(self, batch: DataProto) -> torch.Tensor:
        """Return the reward of each token now: beta * (log pi_phi - log pi_ref), (bs, response_length) float32.

        Args:
            batch: the global batch, with `ref_log_prob` and `response_mask`, (bs, response_length).
        """
        found = self._ranks.spread(self._log_probs, batch).batch["old_log_probs"]
        return self._over_reference(found, batch)

    def learn(
        self, batch: DataProto, outcomes: torch.Tensor, rivals: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Train on a batch: all its mini-batches, once.

        Args:
            batch: the global batch, the same on every process, as `rewards` takes it.
            outcomes: of the responses, (bs,); rivals, weights: see `rivals_and_weights`.

        Returns:
            The rewards of each token as they were when it was learned from, as `rewards` gives them; and metrics named
            reward_model/*, of which those of mini-batches are lists.
        """
        columns = {"outcomes": outcomes, "rivals": rivals, "row_weights": weights, "rows": torch.arange(len(batch))}
        names = ("input_ids", "attention_mask", "position_ids", "prompts", "responses", "response_mask", "ref_log_prob")
        whole = DataProto.from_dict({**{name: batch.batch[name] for name in names}, **columns})
        images = {name: value for name, value in batch.non_tensor_batch.items() if name == "multi_modal_inputs"}
        whole = DataProto(whole.batch, images, batch.meta_info)
        part = self.actor.passes.part_of(whole)
        noted: list[tuple[torch.Tensor, torch.Tensor]] = []

        def losses(log_probs: torch.Tensor, rows: Any) -> torch.Tensor:
            mask = rows["response_mask"].to(log_probs.dtype)
            rewards = self.section.beta_train * (log_probs - rows["ref_log_prob"]) * mask
            noted.append((rows["rows"].cpu(), rewards.detach().float().cpu()))
            cross_entropy = self.section.loss_type == "ce"
            found = row_losses(rewards.sum(dim=1), rows["outcomes"], rows["rivals"], cross_entropy)
            return found * rows["row_weights"]

        temperature = self.config.actor_rollout_ref.rollout.temperature
        with self.at_work():
            metrics = update_by(losses, self.actor, on_device(part, temperature=temperature))
            self.is_usable = self.has_usable_weights()
        rewards = torch.zeros_like(batch.batch["ref_log_prob"], dtype=torch.float32)
        for of_process in self._ranks.gather_objects(noted):
            for rows, values in of_process:
                rewards[rows] = values
        return rewards, {**metrics, "reward_model/lr": self.step_learning_rate()}

    def _log_probs(self, batch: DataProto) -> DataProto:
        return self.compute_log_prob(batch, entropy=False)

    def _over_reference(self, log_probs: torch.Tensor, batch: DataProto) -> torch.Tensor:
        difference = log_probs - batch.batch["ref_log_prob"]
        return self.section.beta_train * difference * batch.batch["response_mask"]
