"""What is under way, and how far it has come."""

import pytest
from toy import tracking
from toy.tracking import Phase, advance, begin, expect, phases, timed, under_way


class Kept(list[Phase]):
    """The phases under way, and in `all` those that are over as well."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Phase] = []

    def append(self, phase: Phase) -> None:
        super().append(phase)
        self.all.append(phase)


def test_phases_nest_and_end_with_exceptions_too():
    seconds: dict[str, float] = {}
    with timed("step", seconds):
        with pytest.raises(ValueError, match="boom"), under_way("gen"):
            assert [phase.name for phase in phases()] == ["step", "gen"]
            raise ValueError("boom")
        assert [phase.name for phase in phases()] == ["step"]
    assert phases() == [] and list(seconds) == ["step"]


def test_the_innermost_phase_counts_its_parts():
    with under_way("gen"):
        expect(3, "parts")
        with under_way("part 1"):
            expect(8, "sequences")
            begin(4)
            begin(4)
        advance()
        (gen,) = phases()
        assert (gen.done, gen.total, gen.unit) == (1, 3, "parts")
    advance()  # nothing is under way: nobody asks


def test_every_part_of_every_phase_of_a_run_is_counted(train, monkeypatch):
    kept = Kept()
    monkeypatch.setattr(tracking, "_under_way", kept)
    train(
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.actor.ppo_epochs=2",
        "actor_rollout_ref.actor.use_kl_loss=true",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "local.recompute_old_log_probs=true",
        "trainer.val_before_train=true",
    )
    counted = {phase.name: phase for phase in kept.all if phase.total}
    assert {"testing", "gen", "old_log_prob", "ref", "update_actor"} <= counted.keys()
    assert [(phase.name, phase.total) for phase in counted.values() if phase.done + phase.begun != phase.total] == []
    assert counted["update_actor"].total == 2 * counted["ref"].total
    assert counted["update_actor"].begun == counted["ref"].begun == 4
