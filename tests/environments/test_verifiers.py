"""Environments of verifiers behind the endpoint: the real package, its harness and servers of tools, and no network."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extractor.values.options import ENVIRONMENT
from tests.environments import support
from tests.environments.support import OneProcess, Project, parts
from tests.environments.test_agents import CALL
from tests.project.support import Configuration
from tests.releases import NEWEST

pytest.importorskip("verifiers.v1")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("uv") is None, reason="verifiers runs agents by uv")]
SUMS = """
import asyncio
import os

import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class Sum(vf.Task[Data]):
    @vf.reward(weight=2.0)
    async def right(self, trace: vf.Trace) -> float:
        if trace.last_reply == "hang":
            await asyncio.sleep(60)
        if trace.last_reply == "raise":
            raise RuntimeError("unlucky")
        return float(trace.last_reply == self.data.answer)

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class SumsConfig(vf.TasksetConfig):
    first: int = 0


class Sums(vf.Taskset[Sum, SumsConfig]):
    def load(self):
        numbers = range(self.config.first, 8)
        return [Sum(Data(prompt=f"question {n}: {n}+1=", answer=str(n + 1)), self.config.task) for n in numbers]


__all__ = ["Sums"]
"""
TALKS = """
import verifiers.v1 as vf


class Talk(vf.Task[vf.TaskData]):
    @vf.reward
    async def said(self, trace: vf.Trace) -> float:
        return float(len(trace.assistant_messages))


class TalkEnv(vf.SingleAgentEnv):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as interaction:
            for word in ("one", "two"):
                await interaction.turn(word)


class Talks(vf.Taskset[Talk, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        while True:
            yield Talk(vf.TaskData(prompt=None, system_prompt="question"), self.config.task)


__all__ = ["TalkEnv", "Talks"]
"""
COUNTS = """
import verifiers.v1 as vf


class Counter(vf.State):
    count: int = 0


class Adder(vf.Toolset[vf.ToolsetConfig, Counter]):
    @vf.tool
    def add(self, a: int, b: int) -> str:
        'Add two numbers.'
        self.state.count += 1
        return str(a + b)


class CountConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class Count(vf.Task[vf.TaskData, Counter, CountConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Adder(config.tools)]

    @vf.reward
    async def counted(self, trace: vf.Trace) -> float:
        return float(trace.state.count)


class CountsConfig(vf.TasksetConfig):
    task: CountConfig = CountConfig()


class Counts(vf.Taskset[Count, CountsConfig]):
    def load(self):
        return [Count(vf.TaskData(prompt=f"question {n}"), self.config.task) for n in range(3)]


class TwoConfig(vf.EnvConfig):
    one: vf.AgentConfig = vf.AgentConfig()
    other: vf.AgentConfig = vf.AgentConfig()


__all__ = ["Counts"]
if __name__ == "__main__":
    Adder.run()
"""
TWO = """
import verifiers.v1 as vf
from counts import Counts, TwoConfig


class Two(vf.Env[TwoConfig]):
    async def run(self, task, agents):
        pass


__all__ = ["Counts", "Two"]
"""
FILES = {"sums.py": SUMS, "talks.py": TALKS, "counts.py": COUNTS, "two.py": TWO}
Play = Callable[..., Any]


@pytest.fixture(scope="module")
def project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    configuration = Configuration(NEWEST[-1], features=("env_verifiers",), recipe=ENVIRONMENT, package="ver")
    root = tmp_path_factory.mktemp("verified") / "project"
    with support.imported_beside(configuration, root, FILES) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(root))  # servers of tools are processes
        yield made


@pytest.fixture
def play(project: Project, tmp_path: Path) -> Iterator[Play]:
    """A function that plays tasks of an environment by scripted turns; returns the batch and the tokenizer."""
    path, tokenizer = support.save_ascii_model(project, tmp_path / "toy", shows_tools=True)
    made: list[Any] = []

    def run(name: str, *said: list[str], timeout: float = 120) -> tuple[Any, Any]:
        settings = {"name": f"verifiers:{name}", "val_size": len(said), "train_size": 3}
        rows = project.module("custom.env_dataset").environment_rows("val", settings)
        turns = [[*(f"{turn}<eos>" for turn in episode), "<eos>"] for episode in said]
        config = project.config(
            f"actor_rollout_ref.model.path={path}",
            "actor_rollout_ref.rollout.multi_turn.enable=true",
            "local.agent.program=ver.custom.env_verifiers:run",
            f"local.agent.timeout={timeout}",
            "local.env.max_error_share=1",
            "local.env.max_turn_tokens=null",
            "data.max_response_length=200",
        )
        project.module("agents.agent_loop").check_agents(config)
        engine = support.scripted(project, tokenizer, turns)
        rollouts = support.rollouts_of(project, config, tokenizer, OneProcess(), engine)
        made.append(rollouts.episodes)
        prompts = support.prompts_of(project, [[5, 6]] * len(said), [row["extra_info"] for row in rows])
        prompts.non_tensor_batch["data_source"] = np.array([row["data_source"] for row in rows], dtype=object)
        return rollouts.generate(prompts), tokenizer

    yield run
    for episodes in made:
        episodes.close()


def test_rewards_their_parts_and_faults_are_those_of_each_task(play: Play) -> None:
    batch, tokenizer = play("sums", ["1"], ["7"], ["raise"], ["4"], ["hang"], timeout=30)
    columns = batch.non_tensor_batch
    ends, scores = columns["env_end"].tolist(), [sum(scores) for scores in columns["turn_scores"]]
    assert ends == ["terminated", "terminated", "error", "terminated", "timeout"], columns["env_error"]
    assert [scores[row] for row in (0, 1, 3)] == [2.0, 0.0, 2.0]
    assert columns["right"].tolist() == [2.0, 0.0, None, 2.0, None]
    assert columns["length"].tolist() == [1.0, 1.0, None, 1.0, None]
    assert "unlucky" in columns["env_error"][2]
    assert [parts(batch, tokenizer, row) for row in (0, 1)] == [[(1, "1<eos>")], [(1, "7<eos>")]]


def test_what_a_scripted_user_and_a_tool_say_is_joined_and_not_trained(play: Play) -> None:
    batch, tokenizer = play("talks", ["first", "second"])
    assert parts(batch, tokenizer) == [(1, "first<eos>"), (0, "<user>two<assistant>"), (1, "second<eos>")]
    assert batch.batch["rm_scores"].sum() == 2.0
    call = CALL.replace('"add"', '"adder_add"')
    batch, tokenizer = play("counts", [call, "seven"])
    assert parts(batch, tokenizer) == [(1, f"{call}<eos>"), (0, "<tool>7<assistant>"), (1, "seven<eos>")]
    assert batch.batch["rm_scores"].sum() == 1.0
    assert batch.non_tensor_batch["agent_counts"][0]["untrained"] == 0


def test_tasks_are_split_and_what_cannot_be_played_is_refused(project: Project) -> None:
    rows = project.module("custom.env_dataset").environment_rows
    settings = {"name": "verifiers:sums", "val_size": 3, "train_size": 9, "kwargs": {"taskset": {"first": 1}}}
    for split, answers in (("val", ["2", "3", "4"]), ("train", ["5", "6", "7", "8"])):
        assert [json.loads(row["extra_info"]["task"])["answer"] for row in rows(split, settings)] == answers
    for name, said in (("nowhere", "'nowhere' not found"), ("two", "agents ['one', 'other']")):
        with pytest.raises(project.module("errors").ConfigError) as caught:
            project.module("custom.env_wrapper").make_env({"name": f"verifiers:{name}"})
        assert said in str(caught.value)
        assert caught.value.hint
