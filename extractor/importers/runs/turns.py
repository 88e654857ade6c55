"""Runs of forks whose own loop plays turns: their settings of it, under verl's names.

Search-R1 (PeterGriffinJin/Search-R1) and what began as a copy of it, verl-agent, verl-tool, DeepEyes and VAGEN had
loops before verl had one. What is said of theirs here is from Search-R1's `search_r1/llm_agent/generation.py`,
verl-tool's `verl_tool/agent_loop/verltool_agent_loop.py`, DeepEyes' `verl/workers/agent/parallel_env.py` and the
READMEs of the other two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.renaming import flat_settings, renamed
from extractor.importers.runs.run import Run

_ROLLOUT = "actor_rollout_ref.rollout"
N, PLAYS, TURNS = f"{_ROLLOUT}.n", f"{_ROLLOUT}.multi_turn.enable", f"{_ROLLOUT}.multi_turn.max_assistant_turns"
PROMPT, RESPONSE = "data.max_prompt_length", "data.max_response_length"
MANAGER = "reward_model.reward_manager"
# The project's own: verl has no such settings.
TURN_TOKENS, IS_REWARD = "local.env.max_turn_tokens", "local.env.is_reward"


@dataclass(frozen=True)
class _Loop:
    """What a family of forks calls it.

    Attributes:
        turns: The most turns.
        last: How many more the model has: 1 where the setting counts those of the environment.
        on: What switches it on; None: it always plays.
        absent: Whether it plays where that is not set.
        group: How many episodes start alike, times N; None: N alone says so.
        prompt: How long the first prompt may be; PROMPT is then of the whole. None: as in verl.
        turn: How many tokens a turn of the model may have.
        manager: The reward manager that hands on what the environment gave.
        each_alone: Whether each turn is a sample of its own.
    """

    turns: str
    last: int
    on: str | None = None
    absent: bool = False
    group: str | None = None
    prompt: str | None = None
    turn: str | None = None
    manager: str | None = None
    each_alone: bool = False


LOOPS = (
    _Loop("max_turns", 1, "do_search", True, f"{_ROLLOUT}.n_agent", "data.max_start_length", RESPONSE),
    _Loop("env.max_steps", 0, group="env.rollout.n", manager="episode", each_alone=True),
    _Loop("rollout_manager.max_turns", 0, group="rollout_manager.n_trajectory"),
    _Loop(
        "actor_rollout_ref.agent.max_turns",
        1,
        "actor_rollout_ref.agent.enable_agent",
        True,
        turn="actor_rollout_ref.agent.max_action_length",
    ),
    _Loop(
        f"{_ROLLOUT}.agent.max_turns",
        0,
        f"{_ROLLOUT}.agent.activate_agent",
        turn=f"{_ROLLOUT}.agent.single_response_max_tokens",
    ),
)


_SHUFFLE = ("data.shuffle_train_dataloader", "data.shuffle")
# What a project does without a setting.
_DONE = {
    "actor_rollout_ref.actor.state_masking": True,
    "actor_rollout_ref.agent.mask_observations": True,
    "algorithm.no_think_rl": False,
    "data.train_data_num": None,
    "data.val_data_num": None,
}


def with_verls_names(run: Run) -> Run:
    """Return a run with what verl calls the settings of its own loop, and remarks on them."""
    if run.hints:
        return run
    flat = flat_settings(run)
    for loop in LOOPS:
        if loop.turns in flat or loop.group in flat:
            return _named(run, loop, flat)
    return run


def _named(run: Run, loop: _Loop, flat: dict[str, Any]) -> Run:
    found: dict[str, Any] = {}
    remarks: list[Remark] = []
    kept: dict[str, Any] = {}
    gone = {loop.turns, loop.group, loop.on}

    def say(key: str, named: str, value: Any, why: str) -> None:
        found[named] = value
        remarks.append(Remark(key, flat[key], "changed", f"{why}: here it is {named}={value}"))

    group, alike = flat.get(loop.group or ""), flat.get(N, 1)
    if loop.group and isinstance(group, int) and isinstance(alike, int) and group != 1:
        say(loop.group, N, group * alike, "as many responses to each prompt")
    turns, on = flat.get(loop.turns), flat.get(loop.on or "", loop.absent)
    if isinstance(turns, int) and (loop.on is None or on is True):
        found[PLAYS] = True
        if loop.on in flat:
            remarks.append(Remark(loop.on, on, "changed", f"turns are played: here it is {PLAYS}=True"))
        elif flat.get(PLAYS) is False:
            remarks.append(Remark(PLAYS, False, "changed", f"its own loop plays turns: here it is {PLAYS}=True"))
        say(loop.turns, TURNS, turns + loop.last, "turns of the model" if loop.last == 0 else "one more answers")
        start = flat.get(loop.prompt or "")
        if loop.prompt and isinstance(start, int) and isinstance(flat.get(PROMPT), int):
            gone.add(loop.prompt)
            say(PROMPT, RESPONSE, flat[PROMPT], "of the whole episode")
            say(loop.prompt, PROMPT, start, "of the first prompt")
        size = flat.get(loop.turn or "")
        if loop.turn and isinstance(size, int):
            gone.add(loop.turn)
            kept[TURN_TOKENS] = size
            remarks.append(Remark(loop.turn, size, "changed", f"of one turn: here it is {TURN_TOKENS}={size}"))
        if loop.manager and flat.get(MANAGER) == loop.manager:
            gone.add(MANAGER)
            why = f"the rewards are the environment's: say {IS_REWARD}=true once yours is in custom/env_wrapper.py"
            remarks.append(Remark(MANAGER, loop.manager, "to do", why))
        if loop.each_alone:
            why = "there each turn is a sample of its own; here an episode is one, and may be as long as this says"
            remarks.append(Remark(RESPONSE, flat.get(RESPONSE), "to do", why))
    if isinstance(flat.get(_SHUFFLE[0]), bool):
        gone.add(_SHUFFLE[0])
        say(*_SHUFFLE, flat[_SHUFFLE[0]], "the same")
    done = [key for key, value in _DONE.items() if key in flat and flat[key] == value]
    remarks += [Remark(key, flat[key], "dropped", "a project does so") for key in done]
    gone.update(done)
    told = {item.key for item in remarks}
    why = "as it is without it" if PLAYS in found else "no turns are played"
    left = [item for item in run.overrides if item.key in gone - told]
    remarks += [Remark(item.key, item.value, "dropped", why) for item in left]
    run = renamed(run, gone, found, remarks)
    return replace(run, kept={**run.kept, **kept})
