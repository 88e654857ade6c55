"""Forks whose own loop plays turns: their settings of it under verl's names.

The facts are from Search-R1's `search_r1/llm_agent/generation.py`, verl-tool's `verl_tool/agent_loop`, DeepEyes'
`verl/workers/agent/parallel_env.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from extractor.importers.runs.run import Run, flat_settings, renamed
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
    flat = {} if run.hints else flat_settings(run)
    loop = next((loop for loop in LOOPS if loop.turns in flat or loop.group in flat), None)
    if loop is None:
        return run
    gone: set[str | None] = {loop.turns, loop.group, loop.on}
    found: dict[str, Any] = {}
    remarks: list[Remark] = []

    def say(key: str | None, named: str, value: Any, why: str) -> None:
        found[named] = value
        remarks.append(Remark(str(key), flat[str(key)], "changed", f"{why}: here it is {named}={value}"))

    def number(key: str | None) -> int | None:
        return value if isinstance(value := flat.get(key or ""), int) else None

    size, alike = number(loop.group), flat.get(N, 1)
    if size is not None and isinstance(alike, int) and size != 1:
        say(loop.group, N, size * alike, "as many responses to each prompt")
    turns, on = number(loop.turns), flat.get(loop.on or "", loop.absent)
    if turns is not None and (loop.on is None or on is True):
        found[PLAYS] = True
        if loop.on in flat:
            remarks.append(Remark(str(loop.on), on, "changed", f"turns are played: here it is {PLAYS}=True"))
        elif flat.get(PLAYS) is False:
            remarks.append(Remark(PLAYS, False, "changed", f"its own loop plays turns: here it is {PLAYS}=True"))
        say(loop.turns, TURNS, turns + loop.last, "one more answers" if loop.last else "turns of the model")
        start, size = number(loop.prompt), number(loop.turn)
        if start is not None and number(PROMPT) is not None:
            gone.add(loop.prompt)
            say(PROMPT, RESPONSE, flat[PROMPT], "of the whole episode")
            say(loop.prompt, PROMPT, start, "of the first prompt")
        if size is not None:
            gone.add(loop.turn)
            say(loop.turn, TURN_TOKENS, size, "of one turn")
    if isinstance(flat.get(_SHUFFLE[0]), bool):
        gone.add(_SHUFFLE[0])
        say(*_SHUFFLE, flat[_SHUFFLE[0]], "the same")
    done = [key for key, value in _DONE.items() if key in flat and flat[key] == value]
    remarks += [Remark(key, flat[key], "dropped", "a project does so") for key in done]
    gone.update(done)
    why = "as it is without it" if PLAYS in found else "no turns are played"
    left = [item for item in run.overrides if item.key in gone - {item.key for item in remarks}]
    remarks += [Remark(item.key, item.value, "dropped", why) for item in left]
    kept = {**run.kept, **{key: found.pop(key) for key in (TURN_TOKENS,) if key in found}}
    return replace(renamed(run, gone, found, remarks), kept=kept)
