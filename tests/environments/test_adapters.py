"""Environments of other packages by name: one contract for all adapters, with the real packages and no network."""

import asyncio
import importlib.util
import inspect
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from extractor.values.options import ENVIRONMENT
from extractor.values.resources import find_templates
from tests.environments.support import Project, imported_beside
from tests.project.support import Configuration, vextract
from tests.releases import NEWEST

FEATURES = ("env_gym", "env_openenv", "env_reasoning_gym", "env_textarena")
DOUBLE = f"{sys.executable} {Path(__file__).with_name('openenv_double.py')} {{port}}"


@dataclass(frozen=True)
class Case:
    """An environment, and what is known of it."""

    package: str  # that has to be installed
    name: str  # as `data.env.name` says it; of a server the address is added
    settings: dict[str, Any] = field(default_factory=dict)  # the rest of `data.env`
    wins: Callable[[Any], list[str]] = lambda env: []  # actions that earn the whole reward, from a reset environment
    goes_on: str | None = None  # an action that neither wins nor ends an episode; None: every action ends it
    broken: str | None = None  # what is no action; None: everything is one


LAKE = {"kwargs": {"is_slippery": False}}
CASES = {
    "gym": Case("gymnasium", "gym:FrozenLake-v1", LAKE, lambda env: list("112122"), "0", "north"),
    "reasoning_gym": Case("reasoning_gym", "reasoning_gym:chain_sum", {}, lambda env: [env.entry["answer"]]),
    "openenv": Case("websockets", "openenv:", {"timeout": 2}, lambda env: list("56789"), "0", '{"other": 1}'),
}


@pytest.fixture(scope="module")
def named(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with all adapters, imported."""
    configuration = Configuration(NEWEST[-1], features=FEATURES, recipe=ENVIRONMENT, package="env")
    with imported_beside(configuration, tmp_path_factory.mktemp("named") / "project") as project:
        yield project


@pytest.fixture(scope="module")
def server(named: Project) -> str:
    """The address of a server that speaks OpenEnv's protocol; it ends with this process."""
    return str(named.module("episodes.openenv_session").Server(DOUBLE).ready())


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    found = CASES[request.param]
    if importlib.util.find_spec(found.package) is None:
        pytest.skip(f"{found.package} is not installed")
    return replace(found, name=found.name + request.getfixturevalue("server")) if found.name == "openenv:" else found


def waited(result: Any) -> Any:
    async def wait() -> Any:
        return await result

    return asyncio.run(wait()) if inspect.isawaitable(result) else result


@pytest.fixture
def start(named: Project) -> Callable[..., Any]:
    """A function that begins an episode of a case, from a row's options or a seed; returns environment and text."""

    def begun(case: Case, seed: int = 3) -> tuple[Any, str]:
        made = named.module("custom.env_wrapper").make_env({"name": case.name, **case.settings})
        text, info = waited(made.reset(seed=seed, options={"env_seed": seed}))
        assert isinstance(info, dict)
        return made, text

    return begun


def end(env: Any) -> None:
    if hasattr(env, "close"):
        waited(env.close())


def test_a_seed_gives_the_same_episode_and_another_does_not(case: Case, start: Callable[..., Any]) -> None:
    texts = []
    for seed in (3, 3, *range(4, 10)):
        env, text = start(case, seed)
        texts.append((text, case.wins(env)))
        end(env)
    assert texts[0] == texts[1]
    assert texts[0][0]
    assert case.package in ("gymnasium", "websockets") or len({str(item) for item in texts}) > 3


def test_no_question_of_validation_is_trained_on(case: Case, named: Project) -> None:
    settings = {"name": case.name, **case.settings, "val_size": 5, "train_size": 12}
    rows = {split: named.module("custom.env_dataset").environment_rows(split, settings) for split in ("train", "val")}
    assert (len(rows["train"]), len(rows["val"])) == (12, 5)
    states = [{key: row["extra_info"].get(key) for key in ("env_seed", "item")} for row in rows["val"]]
    assert not [row for row in rows["train"] if {k: row["extra_info"].get(k) for k in states[0]} in states]
    if case.package == "reasoning_gym":
        assert {row["prompt"][0]["content"] for row in rows["train"]}.isdisjoint(
            row["prompt"][0]["content"] for row in rows["val"]
        )


def test_what_wins_ends_with_the_whole_reward(case: Case, start: Callable[..., Any]) -> None:
    """What is no action is said, and costs a turn before."""
    env, _ = start(case)
    if case.broken is not None:
        observation, *outcome, _ = waited(env.step(case.broken))
        assert observation
        assert outcome == [0.0, False, False]
    total = 0.0
    for action in case.wins(env):
        observation, reward, terminated, truncated, info = waited(env.step(action))
        assert isinstance(observation, str)
        assert all(isinstance(value, float) for value in info.values())
        total += reward
        if terminated:
            break
    assert (total, terminated, truncated) == (1.0, True, False)
    end(env)


def test_an_action_may_be_tagged_or_a_call(case: Case, start: Callable[..., Any]) -> None:
    call = '<tool_call>{{"name": "act", "arguments": {{"guess": "{}"}}}}</tool_call>'
    for form in ("<think>0 1?</think><action>{}</action>", call):
        env, _ = start(case)
        observation, _, terminated, _, info = waited(env.step(form.format(case.goes_on or case.wins(env)[0])))
        assert info.get("valid", 1.0) == 1.0
        if case.goes_on is None:
            assert info["acc"] == info["tagged"] == 1.0
        else:
            assert not terminated
            assert isinstance(observation, str) is (form is not call)
            assert form is not call or observation[0]["role"] == "tool"
        end(env)


def test_episodes_at_once_do_not_meet(case: Case, start: Callable[..., Any]) -> None:
    """Turn by turn, and each by itself: they are the same, and the program's own random numbers stay."""
    action = case.goes_on or "0"

    def played(envs: list[Any]) -> list[Any]:
        said: list[Any] = [[] for _ in envs]
        for _ in range(3 if case.goes_on else 1):
            for place, env in enumerate(envs):
                said[place].append(waited(env.step(action)))
        return said

    random.seed(5)
    before = random.getstate()
    begun = [start(case, seed) for seed in (1, 2, 3)]
    at_once = played([env for env, _ in begun])
    alone = []
    for place, seed in enumerate((1, 2, 3)):
        env, text = start(case, seed)
        assert text == begun[place][1]
        alone += played([env])
        end(env)
    assert at_once == alone
    assert random.getstate() == before
    for env, _ in begun:
        end(env)


GYMS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("CartPole-v1", {}, "[-0.0414, ", "1"),
    ("FrozenLake-v1", {"kwargs": {"render_mode": "ansi"}}, "[S]FFF", "2"),
    ("Pendulum-v1", {}, "[", "0.5"),
    ("FrozenLake-v1", {"actions": ["left", "down", "right", "up"]}, "0", "go down"),
)


def test_spaces_of_gymnasium_its_limits_of_time_and_words_for_a_number(start: Callable[..., Any]) -> None:
    """Some scorers of Reasoning Gym raise at words where they ask for numbers."""
    for name, settings, first, action in GYMS:
        env, text = start(Case("gymnasium", f"gym:{name}", settings))
        assert first in text.split("\n", 1)[1], name
        assert env.step(action)[4]["valid"] == 1.0
        assert env.step("nothing")[4] == {"valid": 0.0}
        env.close()
    env, _ = start(Case("gymnasium", "gym:FrozenLake-v1", {"kwargs": {"max_episode_steps": 2, "is_slippery": False}}))
    assert [env.step("0")[2:4] for _ in range(2)] == [(False, False), (False, True)]
    pytest.importorskip("reasoning_gym")
    env, _ = start(Case("reasoning_gym", "reasoning_gym:prime_factorization"))
    assert env.step("nonsense")[1:3] == (0.0, True)


def test_an_unknown_name_or_a_missing_package_is_an_error_with_a_hint(
    named: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str) -> str:
        with pytest.raises(named.module("errors").ConfigError) as caught:
            named.module("custom.env_wrapper").make_env({"name": name})
        return str(caught.value.hint)

    for name, package, message in (
        ("gym:FrozenLak-v1", "gymnasium", "did you mean FrozenLake-v1"),
        ("reasoning_gym:chain_sums", "reasoning_gym", "did you mean chain_sum"),
        ("openenv:http://127.0.0.1:9", "websockets", "start it"),
        ("gim:x", "pytest", "vextract add env_gim"),
    ):
        assert importlib.util.find_spec(package) is None or message in refused(name)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "env.custom.env_gym", raising=False)
    assert refused("gym:FrozenLake-v1").endswith("-m pip install gymnasium")


def test_a_server_of_ours_is_started_watched_and_stopped(named: Project, start: Callable[..., Any]) -> None:
    """What hangs or raises costs its own episode; what dies those that it plays, and is started again for the next."""
    command = f"{DOUBLE} # another one"
    case = Case("openenv", f"openenv:{command}", {"timeout": 2})
    server = named.module("episodes.openenv_session").Server(command)
    for does, said in (("hang", "no answer in 2 s"), ("raise", "unlucky")):
        (env, _), (other, _) = start(case), start(case)
        with pytest.raises((RuntimeError, TimeoutError), match=said):
            waited(env.step(does))
        assert waited(other.step("0"))[4]["valid"] == 1.0
        end(env)
        end(other)
    (env, _), (other, _) = start(case), start(case)
    first = server.process
    for one, action in ((env, "die"), (other, "0")):
        with pytest.raises(Exception, match="close"):
            waited(one.step(action))
    first.wait(timeout=10)
    env, _ = start(case)
    assert waited(env.step("0"))[4]["valid"] == 1.0
    assert server.process.poll() is None
    server.process.stdin.close()  # as when this process ends, however it does
    server.process.wait(timeout=10)
    with pytest.raises(OSError, match=r"refused|reset"):
        urlopen(f"{server.url}/health", timeout=1)
    errors = named.module("errors")
    for name, text in (("openenv:python {port}.py", "no server of OpenEnv answers"), ("openenv:x", "neither a URL")):
        with pytest.raises(errors.ConfigError, match=text):
            named.module("custom.env_wrapper").make_env({"name": name})


def test_a_project_has_the_adapter_that_it_is_for_and_no_other(verl: None, tmp_path: Path) -> None:
    assert vextract("new", "lake", "--env", "gym:FrozenLake-v1", "--offline", cwd=tmp_path).returncode == 0
    hooks = sorted(path.name for path in (tmp_path / "lake/lake/custom").glob("env_*.py"))
    assert hooks == ["env_dataset.py", "env_gym.py", "env_wrapper.py"]
    assert 'NAME = "gym:FrozenLake-v1"' in (tmp_path / "lake/lake/custom/env_wrapper.py").read_text()
    assert "gymnasium" in (tmp_path / "lake/requirements.txt").read_text()
    refused = vextract("new", "p", "--env", "gim:x", "--offline", cwd=tmp_path)
    assert refused.returncode == 2
    assert re.search(r"is not ADAPTER:NAME(.|\n)*--env gym:x", refused.stderr)
    added = vextract("add", "env-textarena", "--allow-dirty", "--offline", cwd=tmp_path / "lake")
    assert added.returncode == 0, added.stderr
    assert (tmp_path / "lake/lake/custom/env_textarena.py").exists()


def test_an_adapter_has_sixty_lines_at_most() -> None:
    for path in find_templates().glob("feature/env_*/__package__/custom/*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 60, path
