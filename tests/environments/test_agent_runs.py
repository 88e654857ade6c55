"""Agent programs with the real engine: the weights that environments give, learning, and many faults."""

import gc
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.environments.support import OneProcess, Project, questions, rollouts_of
from tests.environments.test_agents import MULTI_TURN, PROGRAMS
from tests.project.running import check_forked, metrics_of
from tests.project.support import Configuration, forget, make
from tests.server.conftest import commands

pytestmark = pytest.mark.slow

# The conversation that custom/env_wrapper.py has, held by a program.
GUESSER = """
from programs import post
from wet.custom.env_wrapper import make_env


def run(task, base_url, api_key, model, seed):
    env, messages, total = make_env({}), list(task["prompt"]), 0.0
    env.reset(seed=seed, options=task["extra_info"])
    while True:
        _, answer = post(base_url, api_key, "/chat/completions", model=model, messages=messages)
        messages.append(answer["choices"][0]["message"])
        observation, reward, terminated, truncated, info = env.step(messages[-1]["content"])
        total += reward
        if terminated or truncated:
            return {"reward": total, **info}
        messages.append({"role": "user", "content": observation})
"""
# What the tests of a few sessions train with.
CONFIGURATION = {"features": ("agents",), "recipe": "multiturn", "package": "wet"}
# Of faults, 10 % each.
KINDS = ["raise", "hang a while", "fork", "leave", "ask on", *["well"] * 5]


def test_a_program_gives_the_weights_that_the_environment_gives(verl: None, tmp_path: Path) -> None:
    """Bit for bit, for the same conversation."""
    root = make(Configuration("0.9.1", **CONFIGURATION), tmp_path / "project").root
    (root / "programs.py").write_text(PROGRAMS)
    (root / "guesser.py").write_text(GUESSER)
    sizes = ["data.train_batch_size=5", "actor_rollout_ref.actor.ppo_mini_batch_size=5", "trainer.test_freq=-1"]
    sizes += ["trainer.total_training_steps=2", "actor_rollout_ref.rollout.n=4", "trainer.val_before_train=false"]
    found = []
    for program in ("null", "guesser:run"):
        run = tmp_path / program.partition(":")[0]
        settings = [*sizes, f"trainer.default_local_dir={run}", f"local.agent.program={program}"]
        check_forked(root, "main.py", *settings)
        (weights,) = run.glob("global_step_*/actor/model.safetensors")
        found.append(weights.read_bytes())
    assert found[0] == found[1]
    assert metrics_of(run)[-1]["actor/grad_norm"] > 0
    assert metrics_of(run)[-1]["agent/requests/mean"] > 1
    assert metrics_of(run)[-1]["agent/untrained_tokens"] == 0


@pytest.mark.parametrize("sessions", [60, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_nothing_is_left_behind(
    verl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, sessions: int
) -> None:
    """Of many sessions, up to 64 at once, by the engine of transformers: no thread, process, file, or memory."""
    at_once = min(64, sessions // 3)
    root = make(Configuration("0.9.1", **CONFIGURATION), tmp_path / "project").root
    hang = '    if kind == "hang a while":\n        time.sleep(2.5)\n        ask()\n'
    (root / "soak.py").write_text(
        PROGRAMS.replace('    if kind == "fork":', f'{hang}    if kind == "fork":').replace("sleep 61", "sleep 6161")
    )
    monkeypatch.syspath_prepend(str(root))
    project = Project(root, "wet")
    ranks = project.module("run.distributed").Ranks()
    request.addfinalizer(ranks.close)
    model_path = str(project.module("data.toy").ensure_toy_model(tmp_path / "toy"))
    config = project.config(
        f"actor_rollout_ref.model.path={model_path}",
        f"{MULTI_TURN}.enable=true",
        "local.agent.program=soak:faulty",
        "local.agent.timeout=1",
        "local.env.max_error_share=1",
        "data.max_prompt_length=24",
        "data.max_response_length=16",
    )
    project.module("settings.loading").settle_device(config)
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    policy = project.module("workers.policy").Policy(config, tokenizer, ranks, model_path, total_steps=1)
    engine = project.module("workers.rollout_engine").RolloutEngine(config, tokenizer, ranks, policy)
    rollouts = rollouts_of(project, config, tokenizer, OneProcess(), engine)
    question = [[{"role": "user", "content": "37="}]] * at_once
    chance, before, ends, kinds = random.Random(0), (), Counter[str](), Counter[str]()
    sizes: list[int] = []
    others = _held()[2]  # such as that which other tests of this process fork from
    for round_ in range(sessions // at_once):
        drawn = [chance.choice(KINDS) for _ in range(at_once)]
        kinds.update(drawn)
        columns = rollouts.generate(
            questions(project, at_once, [{"kind": kind} for kind in drawn], raw_prompt=question)
        ).non_tensor_batch
        ends.update(columns["env_end"])
        for kind, end, count in zip(drawn, columns["env_end"], columns["agent_counts"], strict=True):
            if end == "terminated":  # one that is late may start its processes yet, and they end with its thread
                assert count["processes"] >= (kind in ("fork", "leave")), kind
            assert (kind == "raise") == (end == "error") or end == "timeout", kind  # a busy machine may be late
        if round_ == 1:
            before = _held()
        sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20)
    rollouts.close()  # until the next rollout, or this, a request of a program that hangs waits to be refused
    deadline = time.monotonic() + 10
    while any(thread.name.startswith("agent-") for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert kinds["hang a while"] <= ends["timeout"] < sessions // 4
    assert sum(ends.values()) == sessions // at_once * at_once
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("agent-")]
    threads, files, children = _held()
    assert children == others
    assert not [name for _, name in commands() if "sleep 6161" in name]
    assert threads <= before[0]
    assert files <= before[1] + 8
    assert sizes[-1] < sizes[1] + 80
    forget("wet", "soak")


def _held() -> tuple[int, int, int]:
    """The threads, open files and children of this process."""
    gc.collect()
    children = [number for file in Path("/proc/self/task").glob("*/children") for number in file.read_text().split()]
    named = [thread for thread in threading.enumerate() if thread.name.startswith(("agent-", "environment"))]
    return len(threading.enumerate()) - len(named), len(os.listdir("/proc/self/fd")), len(children)
