"""Environments that raise, hang, wait or return nonsense."""

import asyncio
import inspect
import sys
import threading
import time
from typing import Any

import pytest

from tests.environments.support import Project, prompts_of

PROMPT = "<user>?<assistant>"


class Env:
    """Right at the first turn, unless its row names something else that it does."""

    def __init__(self, settings: Any = None) -> None:
        self.calls = 0

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self.does = options.get("does")
        if self.does == "raise in reset":
            raise OSError("no board left")
        return "?", {}

    def step(self, action: str) -> Any:
        self.calls += 1
        if self.does == "raise":
            raise ValueError("illegal\n  move")
        if self.does == "raise later" and self.calls == 2:
            raise ValueError("illegal")
        if self.does == "exit":
            sys.exit("enough")
        if self.does == "hang":
            time.sleep(60)
        if isinstance(self.does, tuple):
            return self.does
        return "1", 1.0, self.does is None, False, {"acc": 1.0, "said": action}


class AsyncEnv(Env):
    """The same with coroutines; counts how many are under way at once."""

    running = 0
    most = 0

    async def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
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
def row(episodic: Project, tokenizer: Any) -> Any:
    """A function that gives prompts, all with one uid, for each thing that an environment does."""

    def make(does: list[Any]) -> Any:
        prompts = prompts_of(episodic, [tokenizer(PROMPT)["input_ids"]] * len(does), [{"does": what} for what in does])
        prompts.non_tensor_batch["uid"][:] = "one"
        return prompts

    return make


@pytest.fixture
def run(rollouts: Any, row: Any) -> Any:
    """A function that plays one episode for each thing that an environment does."""

    def make(make_env: Any, does: list[Any], *overrides: str) -> Any:
        return rollouts(lambda contexts: ["7<eos>"] * len(contexts), make_env, *overrides).generate(row(does))

    return make


def line_of(function: Any, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"{inspect.getsourcefile(function)}:{first + next(i for i, line in enumerate(lines) if text in line)}"


@pytest.mark.parametrize("make_env", [Env, AsyncEnv])
def test_what_an_environment_raises_costs_its_sample(
    run: Any, episodic: Project, make_env: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that was made is closed once, most of all one that failed: it may hold a container or a browser."""
    closed: list[Any] = []
    monkeypatch.setattr(Env, "close", lambda env: closed.append(env.does), raising=False)
    does = [None, "raise", "raise in reset", "raise later", None]
    batch = run(make_env, does, "local.env.max_error_share=0.6")
    assert sorted(map(str, closed)) == sorted(map(str, does))
    columns = batch.non_tensor_batch
    assert columns["env_end"].tolist() == ["terminated", "error", "error", "error", "terminated"]
    illegal, no_board = "step raised ValueError: illegal", "reset raised OSError: no board left"
    assert columns["env_error"].tolist() == ["", f"{illegal} move", no_board, illegal, ""]
    assert columns["env_error_file"][1] == line_of(Env.step, "illegal\\n")
    assert columns["turns"].tolist() == [1, 1, 1, 2, 1]
    assert batch.batch["attention_mask"][:, -20:].sum(-1).tolist() == [2, 2, 2, 7, 2]
    assert batch.batch["response_mask"].sum(-1).tolist() == [2, 0, 0, 0, 2]
    assert batch.batch["rm_scores"].sum(-1).tolist() == [1.0] * 5
    assert columns["acc"].tolist() == [1.0, None, None, 1.0, 1.0]
    assert columns["said"].tolist() == ["7", None, None, "7", "7"]
    metrics = episodic.module("episodes.outcomes").episode_metrics(batch)
    assert (metrics["env/errors"], metrics["env/timeouts"], metrics["env/terminated"]) == (3, 0, 0.4)
    shown = capsys.readouterr().err
    assert shown.count("warning") == 1
    assert f"3 of 5 environments failed; the first: {illegal} move" in shown
    assert f"hook: {line_of(Env.step, 'illegal' + chr(92) + 'n')}" in shown


def test_what_failures_cost_is_settings(
    rollouts: Any, row: Any, run: Any, episodic: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of a run is shown once; too many end it."""
    shown = rollouts(lambda contexts: ["7<eos>"] * len(contexts), Env)
    for _ in range(3):
        shown.generate(row([None, "raise"]))
    assert capsys.readouterr().err.count("1 of 2 environments failed") == 1
    batch = run(Env, [None, "raise later"], "local.env.error_reward=-1", "local.env.mask_errors=false")
    assert batch.batch["rm_scores"].sum(-1).tolist() == [1.0, -1.0]
    assert batch.non_tensor_batch["turn_scores"][1] == [0.0, -1.0]
    assert batch.batch["response_mask"].sum(-1).tolist() == [2, 4]
    said = r"2 of 3 environments failed, more than local\.env\.max_error_share=0\.5"
    with pytest.raises(episodic.module("hooks").HookError, match=said) as caught:
        run(Env, [None, "raise", "raise"])
    assert caught.value.hook_file == line_of(Env.step, "illegal\\n")
    assert (caught.value.sample["index"], caught.value.sample["response"]) == (1, "7")


RESULTS = (
    (("1", 1.0, True), "step returned 3 values, not (observation, reward, terminated, truncated, info)"),
    (("1", float("nan"), True, False, {}), "step returned nan as reward, not a finite number"),
    (("1", "high", True, False, {}), "step returned 'high' as reward, not a finite number"),
    ((7, 1.0, False, False, {}), "step returned a int as observation, not text or a list of {role, content}"),
    (([{"content": "1"}], 1.0, False, False, {}), "step returned a list as observation, not text or a list of"),
)


def test_a_result_of_the_wrong_form_is_a_failure(run: Any) -> None:
    given = [None, *(result for result, _ in RESULTS)]
    columns = run(Env, given, "local.env.max_error_share=1").non_tensor_batch
    assert columns["env_end"].tolist() == ["terminated", *["error"] * len(RESULTS)]
    for error, file, (_, message) in zip(columns["env_error"][1:], columns["env_error_file"][1:], RESULTS, strict=True):
        assert error.startswith(message)
        assert file.startswith(__file__)
    said = ([{"role": "user", "content": "1"}], 1.0, False, False, {})
    columns = run(Env, [None, said], "local.env.observations=text").non_tensor_batch
    assert columns["env_end"].tolist() == ["terminated", "error"]
    assert "cannot be rendered: ValueError: an observation in messages needs a chat template" in columns["env_error"][1]


WAYS = [(AsyncEnv, "false"), (Env, "true"), (Env, "false")]


@pytest.mark.parametrize(("make_env", "threads"), WAYS)
def test_one_that_ends_the_program_or_takes_too_long_is_left_behind(run: Any, make_env: Any, threads: str) -> None:
    """It is named where it says so."""
    settings = ("local.env.timeout=0.5", f"local.env.threads={threads}", "local.env.max_error_share=0.6")
    start = time.perf_counter()
    columns = run(make_env, [None, "exit", "hang", None], *settings).non_tensor_batch
    assert time.perf_counter() - start < 30
    assert columns["env_end"].tolist() == ["terminated", "error", "timeout", "terminated"]
    assert "SystemExit" in columns["env_error"][1]
    assert "enough" in columns["env_error"][1]
    assert columns["env_error_file"][1] == line_of(Env.step, "sys.exit")
    assert columns["env_error"][2] == "step took longer than local.env.timeout=0.5 s"
    assert columns["env_error_file"][2].startswith(__file__)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "environment")


def test_every_call_of_an_environment_has_the_limit(run: Any) -> None:
    def hang(*arguments: Any, **settings: Any) -> None:
        time.sleep(60)

    limits = ("local.env.timeout=0.3", "local.env.max_error_share=1")
    for method, end in (("reset", "timeout"), ("close", "terminated")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Env, method, hang, raising=False)
            assert run(Env, [None, None], *limits).non_tensor_batch["env_end"].tolist() == [end] * 2


def test_an_environment_that_cannot_be_made_is_a_failure(run: Any) -> None:
    """It raises, or takes too long: busy, and catching what it can."""
    made: list[int] = []

    def raises(settings: Any) -> Env:
        made.append(1)
        if len(made) == 2:
            raise RuntimeError("no more")
        return Env()

    def spins(settings: Any) -> Env:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue

    columns = run(raises, [None, None, None]).non_tensor_batch
    assert columns["env_error"].tolist() == ["", "make_env raised RuntimeError: no more", ""]
    assert columns["env_error_file"][1] == line_of(raises, "raise R")
    columns = run(spins, [None], "local.env.timeout=0.3", "local.env.max_error_share=1").non_tensor_batch
    assert columns["env_error"].tolist() == ["make_env took longer than local.env.timeout=0.3 s"]
    assert columns["env_error_file"][0].startswith(__file__)


def test_calls_run_at_once_up_to_a_limit_and_keep_their_order(run: Any) -> None:
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


def test_connections_outlive_a_rollout(episodic: Project) -> None:
    """All rollouts of a run share an event loop, so that what an environment opens in one is good in the next."""
    module = episodic.module("episodes.environments")
    settings = type("Settings", (), {"timeout": None, "threads": False, "concurrency": 4})
    loops: list[Any] = []

    class Connects(AsyncEnv):
        async def reset(self, *, seed: int, options: dict[str, Any]) -> Any:  # type: ignore[override]
            loops.append(asyncio.get_running_loop())

    environments = module.Environments(settings, Connects, {})
    loop = asyncio.new_event_loop()
    for _ in range(2):
        loop.run_until_complete(environments.start(1, {}))
    loop.close()
    assert loops == [loop, loop]
