"""Forks whose own loop plays turns: their settings of it under verl's names.

The facts are from Search-R1's `search_r1/llm_agent/generation.py`, verl-tool's `verl_tool/agent_loop`, DeepEyes'
`verl/workers/agent/parallel_env.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from extractor.importers.runs.renaming import flat_settings, renamed
from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import Remark

_ROLLOUT, _AGENT = "actor_rollout_ref.rollout", "actor_rollout_ref.agent"
N, PLAYS, TURNS = f"{_ROLLOUT}.n", f"{_ROLLOUT}.multi_turn.enable", f"{_ROLLOUT}.multi_turn.max_assistant_turns"
PROMPT, RESPONSE = "data.max_prompt_length", "data.max_response_length"
TURN_TOKENS = "local.env.max_turn_tokens"  # the project's own: verl has no such setting
_SHUFFLE = ("data.shuffle_train_dataloader", "data.shuffle")
# What a project does without a setting.
_DONE = {
    "actor_rollout_ref.actor.state_masking": True,
    f"{_AGENT}.mask_observations": True,
    "algorithm.no_think_rl": False,
    "data.train_data_num": None,
    "data.val_data_num": None,
}


@dataclass(frozen=True)
class _Loop:
    """The names of a family of forks.

    Attributes:
        turns: The most turns.
        last: How many more the model has: 1 where the setting counts those of the environment.
        on: What switches it on; None: it always plays.
        absent: Whether it plays where that is not set.
        group: How many episodes start alike, times N; None: N alone says so.
        prompt: How long the first prompt may be; PROMPT is then of the whole. None: as in verl.
        turn: How many tokens a turn of the model may have.
    """

    turns: str
    last: int = 0
    on: str | None = None
    absent: bool = False
    group: str | None = None
    prompt: str | None = None
    turn: str | None = None


LOOPS = (
    _Loop("max_turns", 1, "do_search", True, f"{_ROLLOUT}.n_agent", "data.max_start_length", RESPONSE),
    _Loop(f"{_AGENT}.max_turns", 1, f"{_AGENT}.enable_agent", True, turn=f"{_AGENT}.max_action_length"),
    _Loop(
        f"{_ROLLOUT}.agent.max_turns",
        on=f"{_ROLLOUT}.agent.activate_agent",
        turn=f"{_ROLLOUT}.agent.single_response_max_tokens",
    ),
)


def with_verls_names(run: Run) -> Run:
    """Return a run with verl's names of its own loop's settings, and remarks on them."""
    if run.hints:
        return run
    flat = flat_settings(run)
    loop = next((loop for loop in LOOPS if loop.turns in flat or loop.group in flat), None)
    if loop is None:
        return run
    naming = _Naming(flat, {loop.turns, loop.group, loop.on})
    naming.group(loop)
    naming.play(loop)
    return naming.done(run)


@dataclass(frozen=True)
class _Naming:
    """Settings on their way to verl's names: those that go, those that come, and remarks."""

    flat: Mapping[str, Any]
    gone: set[str | None]
    found: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def _say(self, key: str, named: str, value: Any, why: str, into: dict[str, Any] | None = None) -> None:
        (self.found if into is None else into)[named] = value
        self.remarks.append(Remark(key, self.flat[key], "changed", f"{why}: here it is {named}={value}"))

    def _number(self, key: str | None) -> int | None:
        value = self.flat.get(key or "")
        return value if isinstance(value, int) else None

    def group(self, loop: _Loop) -> None:
        """Name how many responses each prompt has."""
        size, alike = self._number(loop.group), self.flat.get(N, 1)
        if size is not None and isinstance(alike, int) and size != 1:
            self._say(str(loop.group), N, size * alike, "as many responses to each prompt")

    def play(self, loop: _Loop) -> None:
        """Name the turns, if they are played."""
        flat, turns, on = self.flat, self._number(loop.turns), self.flat.get(loop.on or "", loop.absent)
        if turns is None or (loop.on is not None and on is not True):
            return
        self.found[PLAYS] = True
        if loop.on is not None and loop.on in flat:
            self.remarks.append(Remark(loop.on, on, "changed", f"turns are played: here it is {PLAYS}=True"))
        elif flat.get(PLAYS) is False:
            self.remarks.append(Remark(PLAYS, False, "changed", f"its own loop plays turns: here it is {PLAYS}=True"))
        self._say(loop.turns, TURNS, turns + loop.last, "one more answers" if loop.last else "turns of the model")
        start, size = self._number(loop.prompt), self._number(loop.turn)
        if start is not None and self._number(PROMPT) is not None:
            self.gone.add(loop.prompt)
            self._say(PROMPT, RESPONSE, flat[PROMPT], "of the whole episode")
            self._say(str(loop.prompt), PROMPT, start, "of the first prompt")
        if size is not None:
            self.gone.add(loop.turn)
            self._say(str(loop.turn), TURN_TOKENS, size, "of one turn", self.kept)

    def done(self, run: Run) -> Run:
        """Return the run under verl's names."""
        if isinstance(self.flat.get(_SHUFFLE[0]), bool):
            self.gone.add(_SHUFFLE[0])
            self._say(*_SHUFFLE, self.flat[_SHUFFLE[0]], "the same")
        done = [key for key, value in _DONE.items() if key in self.flat and self.flat[key] == value]
        self.remarks.extend(Remark(key, self.flat[key], "dropped", "a project does so") for key in done)
        self.gone.update(done)
        told = {item.key for item in self.remarks}
        why = "as it is without it" if PLAYS in self.found else "no turns are played"
        left = [item for item in run.overrides if item.key in self.gone - told]
        self.remarks.extend(Remark(item.key, item.value, "dropped", why) for item in left)
        return replace(renamed(run, self.gone, self.found, self.remarks), kept={**run.kept, **self.kept})
