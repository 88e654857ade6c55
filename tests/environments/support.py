"""A project of the multi-turn recipe, imported into the tests, and what they put in the place of a model."""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.project.support import Configuration, forget, make

# One set for all projects with tools, which is generated once.
TOOLS = ("episodes", "python_tool", "tools", "tools_mcp")
MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"
# What the toy's template lacks.
TOOLS_IN_TEMPLATE = "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}"


@dataclass(frozen=True)
class Project:
    """A generated project on disk, whose modules can be imported."""

    root: Path
    package: str

    def module(self, path: str) -> ModuleType:
        """The module at a dotted path below the package ("episodes.loop")."""
        return importlib.import_module(f"{self.package}.{path}")

    def config(self, *overrides: str) -> Any:
        """The project's config, with toy sizes, and some settings changed."""
        from omegaconf import OmegaConf

        return OmegaConf.merge(_toy_config(self), OmegaConf.from_dotlist(list(overrides)))


@lru_cache(maxsize=1)
def _toy_config(project: Project) -> Any:
    return project.module("settings.loading").load_config(project.root / "config", ["scale=toy"])


def multi_turn(release: str, engine: str = "hf", package: str = "eps") -> Configuration:
    """The multi-turn recipe, with GRPO."""
    return Configuration(release, engine, features=("overlap", "reward_logs"), recipe="multiturn", package=package)


@contextlib.contextmanager
def imported_beside(configuration: Configuration, root: Path, files: Mapping[str, str] = {}) -> Iterator[Project]:
    """A project that can be imported, like the files beside it."""
    make(configuration, root)
    for name, text in files.items():
        (root / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root))
        yield Project(root, configuration.package)
    forget(configuration.package, *(Path(name).stem for name in files if name.endswith(".py")))


def save_ascii_model(project: Project, directory: Path, *, shows_tools: bool = False) -> tuple[str, Any]:
    """A toy model that reads and writes all of ASCII, and its tokenizer, whose template may name tools."""
    from transformers import AutoTokenizer

    path = str(project.module("data.toy").ensure_toy_model(directory, task="ascii"))
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = TOOLS_IN_TEMPLATE * shows_tools + tokenizer.chat_template
    return path, tokenizer


def check_refused(project: Project, check: Callable[[Any], object], cases: Mapping[tuple[str, ...], str]) -> None:
    """Check that settings are refused, each with what is said of it and a hint."""
    for settings, said in cases.items():
        with pytest.raises(project.module("errors").ConfigError, match=r"(?s)" + said) as refused:
            check(project.config(*settings))
        assert "hint: " in str(refused.value), settings


def parts(batch: Any, tokenizer: Any, row: int = 0) -> list[tuple[int, str]]:
    """A response in pieces: whether the model wrote it, and the text."""
    found: list[tuple[int, list[int]]] = []
    ids, mask = batch.batch["responses"][row].tolist(), batch.batch["response_mask"][row].tolist()
    valid = int(batch.batch["attention_mask"][row, -len(ids) :].sum())
    for token, own in list(zip(ids, mask, strict=True))[:valid]:
        if not found or found[-1][0] != own:
            found.append((own, []))
        found[-1][1].append(token)
    return [(own, tokenizer.decode(tokens)) for own, tokens in found]


def rollouts_of(project: Project, config: Any, tokenizer: Any, ranks: Any, engine: Any) -> Any:
    """Rollouts, which play episodes where the config asks for them."""
    rollouts = project.module("training.rollouts").Rollouts(config, ranks, engine)
    return project.module("episodes.playing").play_episodes(rollouts, config, tokenizer)


class OneProcess:
    """A single process among no peers."""

    rank = 0
    world_size = 1

    def spread(self, function: Callable[[Any], Any], batch: Any) -> Any:
        return function(batch)

    def together(self, function: Callable[[], Any]) -> Any:
        return function()


class Scripted:
    """An engine that writes what a function of the contexts (lists of tokens) names, with more columns of padding."""

    def __init__(self, package: Project, write: Callable[[list[list[int]]], list[list[int]]], wider: int = 0) -> None:
        self.protocol = package.module("vendored.protocol")
        self.write = write
        self.wider = wider
        self.calls: list[tuple[list[list[int]], dict[str, Any]]] = []

    def session(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def finish(self) -> None:
        pass

    def generate_sequences(self, prompts: Any) -> Any:
        import torch

        ids, mask = prompts.batch["input_ids"], prompts.batch["attention_mask"]
        assert (mask.diff(dim=-1) >= 0).all(), "padding is on the left"
        assert mask[:, -1].all()
        assert (prompts.batch["position_ids"] == (mask.cumsum(-1) - 1).clamp(min=0)).all()
        contexts = [row[valid.bool()].tolist() for row, valid in zip(ids, mask, strict=True)]
        assert [list(tokens) for tokens in prompts.non_tensor_batch["raw_prompt_ids"]] == contexts
        self.calls.append((contexts, dict(prompts.meta_info)))
        limit = prompts.meta_info["response_length"]
        rows = [tokens[:limit] for tokens in self.write(contexts)]
        width = limit + self.wider
        responses = torch.tensor([tokens + [0] * (width - len(tokens)) for tokens in rows])
        written = torch.tensor([[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in rows])
        tensors = {
            "responses": responses,
            "attention_mask": torch.cat([mask, written], dim=-1),
            "rollout_log_probs": -written.float() * responses,
        }
        return self.protocol.DataProto.from_dict(tensors)


def prompts_of(package: Project, contexts: list[list[int]], infos: list[dict[str, Any]], **meta: Any) -> Any:
    """Prompts as the trainer hands them to `Rollouts.generate`: padded on the left, each with a uid of its own."""
    import numpy as np

    batch = package.module("episodes.turns").context_batch(contexts, 0, {"global_steps": 1, **meta})
    rows: Any = np.empty(len(infos), dtype=object)
    rows[:] = infos
    uids = np.array([f"uid{row}" for row in range(len(infos))], dtype=object)
    batch.non_tensor_batch.update(uid=uids, extra_info=rows)
    return batch


def scripted(project: Project, tokenizer: Any, episodes: Sequence[list[str]]) -> Scripted:
    """An engine that writes the turns of episodes, the last one again and again; each is told by its question."""
    written = [0] * len(episodes)

    def write(contexts: list[list[int]]) -> list[list[int]]:
        turns = []
        for text in map(tokenizer.decode, contexts):
            row = next((row for row in range(len(episodes)) if f"question {row}" in text), 0)
            turns.append(episodes[row][min(written[row], len(episodes[row]) - 1)])
            written[row] += 1
        return [tokenizer(turn)["input_ids"] for turn in turns]

    return Scripted(project, write)


def played(
    project: Project,
    model: tuple[str, Any],
    episodes: Sequence[list[str]],
    *settings: str,
    infos: Any = None,
    **columns: Any,
) -> Any:
    """The batch of episodes whose turns are scripted, by a model as `save_ascii_model` returns it."""
    path, tokenizer = model
    sizes = ("data.max_prompt_length=40", "data.max_response_length=400")
    config = project.config(f"actor_rollout_ref.model.path={path}", f"{MULTI_TURN}.enable=true", *sizes, *settings)
    rollouts = rollouts_of(project, config, tokenizer, OneProcess(), scripted(project, tokenizer, episodes))
    return rollouts.generate(questions(project, len(episodes), infos, **columns))


def questions(package: Project, count: int, infos: Any = None, **columns: Any) -> Any:
    """Prompts that say "question 0" and so on, as messages, with further columns."""
    prompts = prompts_of(package, [[5, 6]] * count, infos or [{}] * count)
    messages = [[{"role": "user", "content": f"question {row}"}] for row in range(count)]
    for name, values in {"raw_prompt": messages, **columns}.items():
        prompts.non_tensor_batch[name] = package.module("training.batches").objects(values)
    return prompts


def prompt_of(batch: Any, tokenizer: Any, row: int = 0) -> str:
    """The text of a prompt, without padding."""
    width = batch.batch["prompts"].shape[1]
    return str(tokenizer.decode(batch.batch["prompts"][row][batch.batch["attention_mask"][row, :width].bool()]))
