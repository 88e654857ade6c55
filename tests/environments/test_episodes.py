"""The loop: who goes on, when an episode ends, what each environment is told; and environments that fail.

A project's own tests have its tokens, masks and rewards.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from tests.environments.support import Project, prompts_of

PROMPT = "<user>?<assistant>"
SEVEN = "7<eos>"
ALL_MAY_FAIL = "local.env.max_error_share=1"
Run = Callable[..., Any]


class Env:
    """Ends after as many turns as its row says, unless that names something else that it does; answers with a digit."""

    made: ClassVar[list[Env]] = []
    error = ValueError("illegal\n  move")

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.actions: list[str] = []
        self.closed = 0
        Env.made.append(self)

    def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        self.seed, self.options, self.does = seed, options, options.get("does")
        if self.does == "raise in reset":
            raise OSError("no board left")
        return "?", {}

    def step(self, action: str) -> Any:
        self.actions.append(action)
        turn = len(self.actions)
        if self.does == "raise" or (self.does == "raise later" and turn == 2):
            raise Env.error
        if self.does == "hang":
            time.sleep(60)
        if isinstance(self.does, tuple):
            return self.does
        is_over = turn == self.options.get("turns", 1 if self.does is None else None)
        return str(turn), 1.0, is_over, turn == self.options.get("cut"), {"acc": 1.0, "said": action}

    def close(self) -> None:
        self.closed += 1


class AsyncEnv(Env):
    """The same with coroutines; counts how many are under way at once."""

    running = most = 0

    async def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return super().reset(seed=seed, options=options)

    async def step(self, action: str) -> Any:
        AsyncEnv.running += 1
        AsyncEnv.most = max(AsyncEnv.most, AsyncEnv.running)
        try:
            await asyncio.sleep(60 if self.does == "hang" else 0.05)
            return super().step(action)
        finally:
            AsyncEnv.running -= 1


@pytest.fixture
def prompts(episodic: Project, tokenizer: Any) -> Run:
    """A function from the rows' extra_info to prompts."""
    Env.made = []
    return lambda *infos, **meta: prompts_of(episodic, [tokenizer(PROMPT)["input_ids"]] * len(infos), [*infos], **meta)


@pytest.fixture
def run(play: Run, prompts: Run) -> Run:
    """A function that plays one episode, of one uid, for each thing that an environment does."""

    def make(make_env: Any, does: list[Any], *overrides: str) -> Any:
        rows = prompts(*({"does": what} for what in does))
        rows.non_tensor_batch["uid"][:] = "one"
        return play(lambda contexts: [SEVEN] * len(contexts), make_env, rows, *overrides)[0]

    return make


def always(text: str) -> Any:
    return lambda contexts: [text] * len(contexts)


def text_of(tokenizer: Any, batch: Any, row: int, mask: str = "attention_mask") -> str:
    length = batch.batch["responses"].shape[1]
    return str(tokenizer.decode(batch.batch["responses"][row][batch.batch[mask][row, -length:].bool()]))


def line_of(function: Any, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"{inspect.getsourcefile(function)}:{first + next(i for i, line in enumerate(lines) if text in line)}"


def test_finished_episodes_drop_out_of_the_next_turn(play: Run, prompts: Run, tokenizer: Any) -> None:
    rows = prompts({"turns": 2}, {"turns": 1}, {"cut": 3, "turns": 9}, {"turns": 1})
    batch, engine = play(always(SEVEN), Env, rows)
    assert [len(contexts) for contexts, _ in engine.calls] == [4, 2, 1]
    assert [(len(env.actions), env.closed) for env in Env.made] == [(2, 1), (1, 1), (3, 1), (1, 1)]
    assert list(batch.non_tensor_batch["env_end"]) == ["terminated", "terminated", "truncated", "terminated"]
    assert batch.non_tensor_batch["turns"].tolist() == [2, 1, 3, 1]
    assert batch.non_tensor_batch["__num_turns__"].tolist() == [4, 2, 6, 2]
    assert text_of(tokenizer, batch, 2) == "7<eos><user>1<assistant>7<eos><user>2<assistant>7<eos>"
    assert text_of(tokenizer, batch, 2, "response_mask") == "7<eos>7<eos>7<eos>"
    assert batch.batch["rm_scores"].sum(-1).tolist() == [2, 1, 3, 1]
    batch, _ = play(always(SEVEN), Env, prompts({"turns": 1}), "local.env.is_reward=false")
    assert "rm_scores" not in batch.batch  # the reward manager scores the text instead


LIMITS = (
    ("actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2", "turns_spent", 2, 7),
    ("actor_rollout_ref.rollout.multi_turn.max_user_turns=2", "turns_spent", 3, 12),
    ("data.max_response_length=11", "budget_spent", 3, 11),  # the third turn has one token left
    ("data.max_response_length=10", "budget_spent", 2, 7),  # an answer that nothing can follow is left out
)


def test_turns_and_tokens_are_limited(play: Run, prompts: Run) -> None:
    for setting, end, turns, length in LIMITS:
        Env.made = []
        batch, engine = play(always(SEVEN), Env, prompts({"turns": 9}, {"turns": 1}), setting)
        assert batch.non_tensor_batch["env_end"].tolist() == [end, "terminated"], setting
        assert len(engine.calls) == turns == len(Env.made[0].actions)  # the last action is played too
        budget = batch.batch["responses"].shape[1]
        assert batch.batch["attention_mask"][0, -budget:].sum() == length, setting
        assert batch.batch["response_mask"][0, length - 1] == 1


def test_environments_get_their_row_and_a_seed_of_prompt_and_step(play: Run, prompts: Run) -> None:
    def seeds(*settings: str, **meta: Any) -> list[int]:
        Env.made = []
        play(always(SEVEN), Env, prompts({"turns": 1}, {"turns": 1, "board": 9}, **meta), *settings)
        assert [env.options for env in Env.made] == [{"turns": 1}, {"turns": 1, "board": 9}]
        assert Env.made[0].settings["max_turns"] == 4
        return [env.seed for env in Env.made]

    first = seeds()
    assert first == seeds()
    assert first[0] != first[1]
    assert set(first).isdisjoint(seeds(global_steps=2))
    assert set(first).isdisjoint(seeds("local.seed=2"))
    assert seeds(validate=True, global_steps=20) == seeds(validate=True, global_steps=40)
    # Samples of one prompt meet the same environment.
    Env.made = []
    play(always(SEVEN), Env, prompts({"turns": 1}, {"turns": 1}).repeat(3, interleave=True))
    again = [env.seed for env in Env.made]
    assert len({*again[:3]}) == len({*again[3:]}) == 1
    assert again[0] != again[3]


@pytest.mark.parametrize("make_env", [Env, AsyncEnv])
def test_what_an_environment_raises_costs_its_sample(
    run: Run, make_env: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each that was made is closed once, most of all one that failed: it may hold a container or a browser."""
    columns = run(make_env, [None, "raise", "raise in reset", "raise later", None], ALL_MAY_FAIL).non_tensor_batch
    assert [env.closed for env in Env.made] == [1] * 5
    assert columns["env_end"].tolist() == ["terminated", "error", "error", "error", "terminated"]
    illegal, no_board = "step raised ValueError: illegal move", "reset raised OSError: no board left"
    assert columns["env_error"].tolist() == ["", illegal, no_board, illegal, ""]
    assert columns["acc"].tolist() == [1.0, None, None, 1.0, 1.0]
    shown, line = capsys.readouterr().err, line_of(Env.step, "raise Env.error")
    assert columns["env_error_file"][1] == line
    assert f"3 of 5 environments failed; the first: {illegal}" in shown
    assert f"hook: {line}" in shown


def test_what_failures_cost_is_settings_and_too_many_end_the_run(run: Run, episodic: Project) -> None:
    batch = run(Env, [None, "raise later"], "local.env.error_reward=-1", "local.env.mask_errors=false")
    assert batch.batch["rm_scores"].sum(-1).tolist() == [1.0, -1.0]
    assert batch.non_tensor_batch["turn_scores"][1] == [0.0, -1.0]
    assert batch.batch["response_mask"].sum(-1).tolist() == [2, 4]
    said = r"2 of 3 environments failed, more than local\.env\.max_error_share=0\.5"
    with pytest.raises(episodic.module("hooks").HookError, match=said) as caught:
        run(Env, [None, "raise", "raise"])
    assert caught.value.hook_file == line_of(Env.step, "raise Env.error")
    assert (caught.value.sample["index"], caught.value.sample["response"]) == (1, "7")


RESULTS = (
    (("1", 1.0, True), "step returned 3 values, not (observation, reward, terminated, truncated, info)"),
    (("1", float("nan"), True, False, {}), "step returned nan as reward, not a finite number"),
    ((7, 1.0, False, False, {}), "step returned a int as observation, not text or a list of {role, content}"),
    (([{"content": "1"}], 1.0, False, False, {}), "step returned a list as observation, not text or a list of"),
)


def test_a_result_of_the_wrong_form_is_a_failure(run: Run) -> None:
    columns = run(Env, [None, *(result for result, _ in RESULTS)], ALL_MAY_FAIL).non_tensor_batch
    assert columns["env_end"].tolist() == ["terminated", *["error"] * len(RESULTS)]
    for error, file, (_, message) in zip(columns["env_error"][1:], columns["env_error_file"][1:], RESULTS, strict=True):
        assert error.startswith(message)
        assert file.startswith(__file__)


@pytest.mark.parametrize(("make_env", "threads"), [(AsyncEnv, "false"), (Env, "true"), (Env, "false")])
def test_one_that_takes_too_long_is_left_behind(run: Run, make_env: Any, threads: str) -> None:
    start = time.perf_counter()
    settings = ("local.env.timeout=0.5", f"local.env.threads={threads}")
    columns = run(make_env, [None, "hang", None], *settings).non_tensor_batch
    assert time.perf_counter() - start < 30
    assert columns["env_end"].tolist() == ["terminated", "timeout", "terminated"]
    assert columns["env_error"][1] == "step took longer than local.env.timeout=0.5 s"
    assert columns["env_error_file"][1].startswith(__file__)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "environment")


def test_every_call_of_an_environment_has_the_limit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making one as well: busy, and catching what it can."""

    def hang(*arguments: Any, **settings: Any) -> None:
        time.sleep(60)

    def spins(settings: Any) -> None:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue

    limits = ("local.env.timeout=0.3", ALL_MAY_FAIL)
    for method, end in (("reset", "timeout"), ("close", "terminated")):
        with monkeypatch.context() as patch:
            patch.setattr(Env, method, hang)
            assert run(Env, [None, None], *limits).non_tensor_batch["env_end"].tolist() == [end] * 2
    columns = run(spins, [None], *limits).non_tensor_batch
    assert columns["env_error"].tolist() == ["make_env took longer than local.env.timeout=0.3 s"]
    assert columns["env_error_file"][0].startswith(__file__)


def test_calls_run_at_once_up_to_a_limit_and_keep_their_order(run: Run) -> None:
    AsyncEnv.most = 0
    batch = run(AsyncEnv, [None] * 40, "local.env.concurrency=20")
    assert AsyncEnv.most == 20
    assert batch.batch["rm_scores"].sum().item() == 40
    barrier = threading.Barrier(3)

    class Meets(Env):
        def step(self, action: str) -> Any:
            barrier.wait(timeout=10)  # nobody goes on alone
            return "1", float(self.does), True, False, {}

    batch = run(Meets, [1, 2, 3], "local.env.threads=true", "local.env.concurrency=3")
    assert batch.batch["rm_scores"].sum(-1).tolist() == [1.0, 2.0, 3.0]
