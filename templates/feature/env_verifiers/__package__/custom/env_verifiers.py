# vextract:hook  yours: written once, never touched by an upgrade
"""An environment of verifiers, such as verifiers:wordle: its own agent asks the policy, by the endpoint."""

import json
from functools import lru_cache
from typing import Any

import verifiers.v1 as vf

from ..agents.background import Background
from ..errors import ConfigError


class VerifiersTasks:
    """Makes rows of tasks, for `run` to play; `settings`: kwargs (the environment's config), val_size, train_size."""

    def __init__(self, name: str, settings: Any) -> None:
        self.name, self.kwargs = name, json.dumps(settings.get("kwargs") or {}, default=dict)
        self.tasks = serve(name, self.kwargs)[0].taskset

    def states(self, split: str, settings: Any) -> tuple[str, list[dict[str, Any]]]:
        val, train = settings.get("val_size", 20), settings.get("train_size", 200)
        data = [task.data for task in (self.tasks.take(val) if split == "val" else self.tasks.skip(val).take(train))]
        return self.name, [{"kwargs": self.kwargs, "task": e.model_dump_json(), "text": e.prompt_text} for e in data]

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        return options["text"] or self.name, {}  # what the agent asks first takes its place


make_env = VerifiersTasks


@lru_cache
def serve(name: str, kwargs: str) -> tuple[Any, Background]:
    """Return the environment, and where it is served: by default its agent is a process that only chats."""
    config, harness = vf.env_config_type(name), vf.default_harness_id(name)
    roles, given = [role for role, value in config() if isinstance(value, vf.AgentConfig)], json.loads(kwargs)
    if len(roles) != 1:
        raise ConfigError(f"verifiers:{name} has the agents {roles}", "play it by a program of yours: --agent")
    ours = {"runtime": {"type": "subprocess"}, "harness": {"id": "null" if harness == "bash" else harness}}
    given[roles[0]] = {**ours, **given.get(roles[0], {})}
    given["taskset"] = {**given.get("taskset", {}), "id": name}
    try:
        env = vf.load_environment(config.model_validate(given))
    except ModuleNotFoundError as error:
        raise ConfigError(f"verifiers:{name}: {error}", "install the package that has it") from error
    return env, Background(env.serving())


async def run(task: Any, base_url: str, api_key: str, model: str) -> dict[str, Any]:
    """Play a task: the agent program of this project. Returns its reward, the parts of that, and metrics."""
    (env, served), row = serve(task["data_source"], task["extra_info"]["kwargs"]), task["extra_info"]["task"]
    kind = env.taskset.task_type()
    asked = kind(kind.data_type().model_validate_json(row), env.config.taskset.task)
    client = vf.EvalClientConfig(base_url=base_url, api_key_var="NONE", headers={"x-api-key": api_key})
    episode = await served.run(env.run_episode(asked, vf.ModelContext(model=model, client=client)))
    for error in [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]:
        raise RuntimeError(f"{error.type}: {error.message}")
    trace = episode.traces[-1]
    return {**trace.metrics, **{name: part.value for name, part in trace.rewards.items()}, "reward": trace.reward}
