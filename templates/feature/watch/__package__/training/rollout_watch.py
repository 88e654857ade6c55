# vextract:template - edit freely
"""Watch how far the rollout engine's probabilities of the sampled tokens are from the trainer's, and say why.

The gradient is right only if the policy that wrote the responses is the one that is trained (Yao et al., Your efficient
RL framework secretly brings you off-policy RL training, 2025). Looking changes no weight.
"""

from collections.abc import Callable
from typing import Any

import torch
from omegaconf import OmegaConf

from ..run.distributed import Ranks
from ..shims.device import to_dtype
from ..vendored.protocol import DataProto
from ..workers.rollout_interface import distorting_settings, warning_of
from .batches import rollout_metrics

COLUMN = "rollout_log_probs"
FIRST_LOOKS = 2  # before any hand-over of weights, and after the first one
# Temperatures that the trainer tries where the two disagree, and factors around the one that fits best.
TEMPERATURES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0)
FINER = (1.06, 1.03, 1.015)
EXPLAINS = 0.2  # a temperature does if it leaves less than this of the difference
GREW = 3.0  # times what it was at first: something has happened since
RAISED = 0.95  # of the tokens: probabilities that are renormalised among fewer tokens are higher
ROUNDING = 1e-3
UNKNOWN = "unknown to the trainer"  # a cause: settings of sampling


class RolloutWatch:
    """Compares log-probabilities of the engine and of the trainer, and warns once for each cause.

    Where the trainer computes its own before the update it compares all tokens of every step. Otherwise it has the
    policy compute those of a few responses, at the first steps and every so many.

    Args:
        config: the whole config; `local.rollout.mismatch` is the watch's section.
        ranks: this process among its peers; every one must make the same calls.
        policy: computes log-probabilities.
        say: shows a line of text to whoever watches the run.
    """

    def __init__(self, config: Any, ranks: Ranks, policy: Any, say: Callable[[str], None]) -> None:
        self.config = config
        self.settings = config.local.rollout.mismatch
        self.ranks = ranks
        self.policy = policy
        self.say = say
        # What the engine is asked for, and the trainer's log-probabilities do not know.
        self.unknown = distorting_settings(config.actor_rollout_ref.rollout) if self.settings.enable else {}
        self._first: float | None = None
        self._said: set[str] = set()

    def take(self, batch: DataProto) -> torch.Tensor | None:
        """Return the engine's log-probabilities, (bs, response_length) float32, or None: it has given none.

        They stay in the batch only where `rollout.calculate_log_probs` has training use them. Engine hf writes with the
        policy itself: there is nothing to correct for, and training never uses them.
        """
        if COLUMN not in batch.batch.keys():
            self._say_unknown("")
            return None
        rollout = self.config.actor_rollout_ref.rollout
        if rollout.calculate_log_probs and rollout.name != "hf":
            used: torch.Tensor = batch.batch[COLUMN]
            return used
        taken: torch.Tensor = batch.batch.pop(COLUMN)
        return taken

    def due(self, step: int) -> bool:
        """Tell whether a step is one to look at where the policy's log-probabilities would be computed for it.

        Args:
            step: of the whole run, so that one that goes on from a checkpoint looks where it would have anyhow.
        """
        return bool(self.settings.enable and (step <= FIRST_LOOKS or step % self.settings.every == 0))

    def look(self, batch: DataProto, of_engine: torch.Tensor, *, is_known: bool, behind: int = 0) -> dict[str, float]:
        """Compare, before the update of a step, and warn if the two are far apart.

        Args:
            batch: the global batch, the same on every process.
            of_engine: what `take` returned for it.
            is_known: whether the batch has the trainer's own log-probabilities as `old_log_probs`.
            behind: how many updates the weights that wrote it are behind.

        Returns:
            Metrics named training/rollout_*.
        """
        if is_known:
            own = batch.batch["old_log_probs"]
        else:
            batch, of_engine = self._some(batch, of_engine)
            own = self._own(batch)
        mask = batch.batch["response_mask"].bool()
        metrics = rollout_metrics(of_engine, own, mask)
        difference = mean_difference(of_engine, own, mask)
        if self.settings.enable and difference > self.settings.threshold:
            self._warn(batch, of_engine, own, difference, behind)
        self._say_unknown(f": log-probabilities are {difference:.3g} apart on average")
        if self._first is None:
            self._first = difference
        return metrics

    def _say_unknown(self, apart: str) -> None:
        """Say once what the engine is asked for that the trainer does not know, however little it changes."""
        if not self.unknown or UNKNOWN in self._said:
            return
        self._said.add(UNKNOWN)
        text, hint = warning_of(self.unknown)
        self.say(f"warning: {text}{apart}")
        self.say(f"hint: {hint}{correction_hint(self.config)}")

    def _some(self, batch: DataProto, of_engine: torch.Tensor) -> tuple[DataProto, torch.Tensor]:
        """Return a few rows of the batch, evenly spread, and what belongs to them."""
        count = min(len(batch), self.settings.responses)
        rows = torch.linspace(0, len(batch) - 1, count).round().long()
        columns = {name: values[rows.numpy()] for name, values in batch.non_tensor_batch.items()}
        return DataProto(batch.batch[rows], columns, batch.meta_info), of_engine[rows]

    def _own(self, batch: DataProto, temperature: float | None = None) -> torch.Tensor:
        """Return the policy's log-probabilities of a global batch now, (bs, response_length) float32."""

        def compute(share: DataProto) -> DataProto:
            found: DataProto = self.policy.compute_log_prob(share, entropy=False, temperature=temperature)
            return found

        own: torch.Tensor = self.ranks.spread(compute, batch).batch["old_log_probs"]
        return own

    def _warn(
        self, batch: DataProto, of_engine: torch.Tensor, own: torch.Tensor, difference: float, behind: int
    ) -> None:
        name, cause, hint = self._cause(batch, of_engine, own, difference, behind)
        if name in self._said:
            return
        self._said.add(name)
        self.say(
            f"warning: the rollout engine and the trainer disagree on the sampled tokens: their log-probabilities are "
            f"{difference:.3g} apart on average (local.rollout.mismatch.threshold is {self.settings.threshold:g}). "
            f"Likely cause: {cause}"
        )
        self.say(f"hint: {hint}{correction_hint(self.config)}")

    def _cause(
        self, batch: DataProto, of_engine: torch.Tensor, own: torch.Tensor, difference: float, behind: int
    ) -> tuple[str, str, str]:
        """Return the likeliest cause: its name, what it is in words, and what to do about it."""
        rollout = self.config.actor_rollout_ref.rollout
        mask = batch.batch["response_mask"].bool()
        if self.unknown:
            raised = ((of_engine - own)[mask] > -ROUNDING).float().mean().item()
            if raised >= RAISED:
                others = (f"{name}={value:g}" for name, value in self.unknown.items() if name not in ("top_p", "top_k"))
                kept = " and ".join([f"top_p={rollout.top_p:g}", f"top_k={rollout.top_k}", *others])
                return (
                    UNKNOWN,
                    f"{kept}: the engine's probabilities are renormalised among the tokens that these leave, the "
                    "trainer's are among all",
                    warning_of(self.unknown)[1],
                )
        if behind:
            return (
                "ahead",
                f"stale weights: the responses were written with those of {behind} update before (local.rollout.ahead)",
                "set local.rollout.ahead=0, or lower actor_rollout_ref.actor.optim.lr",
            )
        if self._first is not None and self._first <= self.settings.threshold and difference > GREW * self._first:
            return (
                "stale",
                f"stale weights: the two were {self._first:.3g} apart at first, so that the engine seems not to have "
                "got the updates since (a failed hand-over)",
                "look at what the engine or the server says when weights are handed over, or start it anew",
            )
        fitting = self._fitting_temperature(batch, of_engine, difference)
        if fitting is not None:
            return (
                "temperature",
                f"temperature: the engine's are those at about {fitting:.2g}, and the trainer computes with "
                f"{float(rollout.temperature):g}",
                "have both use actor_rollout_ref.rollout.temperature: see what the server, its generation config or "
                "engine_kwargs say instead (vLLM gives log-probabilities before temperature unless logprobs_mode is "
                "processed_logprobs)",
            )
        trains, writes = (to_dtype(section.dtype) for section in self._computing())
        if trains != writes:
            names = [str(dtype).removeprefix("torch.") for dtype in (writes, trains)]
            return (
                "dtype",
                f"dtype: the engine computes in {names[0]}, and the trainer in {names[1]}",
                "set actor_rollout_ref.rollout.dtype and actor_rollout_ref.actor.fsdp_config.dtype to the same",
            )
        if self.unknown:
            asked = " and ".join(f"{name}={value:g}" for name, value in self.unknown.items())
            return UNKNOWN, f"{asked}: the trainer's log-probabilities do not know it", warning_of(self.unknown)[1]
        return (
            "unknown",
            "none that settings show: temperature, top_p, top_k and dtype are the same. The engine may hold other "
            "weights (a failed hand-over, a server with another model or quantised weights), or its kernels round "
            "otherwise",
            "compare with local.dtype=float32, and look at what the engine or the server says of its weights",
        )

    def _computing(self) -> tuple[Any, Any]:
        """Return the sections that say in which dtype the trainer and the engine compute."""
        section = self.config.actor_rollout_ref
        return section.actor.fsdp_config, section.rollout

    def _fitting_temperature(self, batch: DataProto, of_engine: torch.Tensor, difference: float) -> float | None:
        """Return the temperature at which the trainer would say what the engine says; None: there is none."""
        batch, of_engine = self._some(batch, of_engine)
        mask = batch.batch["response_mask"].bool()
        apart: dict[float, float] = {}
        candidates = [*TEMPERATURES]
        for step in (*FINER, None):
            for temperature in candidates:
                apart[temperature] = mean_difference(of_engine, self._own(batch, temperature), mask)
            best = min(apart, key=apart.__getitem__)
            candidates = [best / step, best * step] if step else []
        return best if apart[best] < EXPLAINS * difference else None


def mean_difference(of_engine: torch.Tensor, own: torch.Tensor, mask: torch.Tensor) -> float:
    """Return by how much log-probabilities differ on average, in nats; NaN without a token."""
    return (of_engine - own)[mask].abs().mean().item()


def watched(config: Any) -> Any:
    """Return the config for the rollout engine, which with the watch gives the log-probabilities of its samples."""
    if not (config.local.rollout.mismatch.enable and config.actor_rollout_ref.rollout.do_sample):
        return config
    return OmegaConf.merge(config, {"actor_rollout_ref": {"rollout": {"calculate_log_probs": True}}})


def correction_hint(config: Any) -> str:
    """Say how this project weighs tokens by the difference: truncated importance sampling."""
    rollout, section = config.actor_rollout_ref.rollout, config.algorithm.get("rollout_correction")
    if rollout.name == "hf":
        return ""
    given = "actor_rollout_ref.rollout.calculate_log_probs=true"
    if section is None:
        return f"; or vextract add rollout_correction (verl 0.6.1 and later), and {given}"
    missing = [] if rollout.calculate_log_probs else [given]
    if section.rollout_is is None and not section.bypass_mode:
        missing.append("algorithm.rollout_correction.rollout_is=token")
    if not missing:
        return "; algorithm.rollout_correction corrects for it meanwhile"
    return f"; or correct for it by truncated importance sampling: {' '.join(missing)}"
