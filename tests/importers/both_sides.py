"""Run by tests in a process of its own: what verl's own functions, or a project's, make of the same hooks.

    python -m tests.importers.both_sides ESTIMATOR verl VERL EXPORT OVERRIDES
    python -m tests.importers.both_sides ESTIMATOR project PROJECT PACKAGE MODEL [SETTING...]

ESTIMATOR is the name of one of the project's own. VERL is an unpacked release; EXPORT what `vextract
export` made; OVERRIDES a file with its overrides as JSON; MODEL a directory with the toy model's tokenizer. It prints
what came of them as JSON, in its last line.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from extractor.importers.config.project import load, read_files
from extractor.usecases.verify.driver.sides import import_upstream, prepare_upstream

PROMPT, TRUTH, TEXTS = "37=", "48", ("48", "47", "x", "488")


def make_batch(proto: Any, tokenizer: Any) -> Any:
    """Responses to one prompt, right and wrong, padded on the right."""
    import numpy as np
    import torch

    prompt = torch.tensor(tokenizer(PROMPT, add_special_tokens=False)["input_ids"])
    ids = [torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    pad = torch.nn.utils.rnn.pad_sequence
    responses = pad(ids, batch_first=True, padding_value=tokenizer.pad_token_id or 0)
    prompts = prompt.repeat(len(TEXTS), 1)
    mask = pad([torch.ones_like(row) for row in ids], batch_first=True)
    attention = torch.cat([torch.ones_like(prompts), mask], dim=1)
    columns = {
        "data_source": ["test"] * len(TEXTS),
        "reward_model": [{"style": "rule", "ground_truth": TRUTH}] * len(TEXTS),
        "extra_info": [{"question": PROMPT, "index": row} for row in range(len(TEXTS))],
        "raw_prompt": [[{"role": "user", "content": PROMPT}]] * len(TEXTS),
    }
    arrays = {name: np.empty(len(values), dtype=object) for name, values in columns.items()}
    for name, values in columns.items():
        arrays[name][:] = values
    tensors = {"prompts": prompts, "responses": responses, "attention_mask": attention}
    tensors |= {"input_ids": torch.cat([prompts, responses], dim=1), "position_ids": attention.cumsum(1) - 1}
    return proto.from_dict(tensors=tensors, non_tensors=arrays)


def describe_rows(rows: Any) -> dict[str, Any]:
    """What there is to see of a dataset, under every release."""
    first = [rows[index] for index in range(3)]
    truths = [row["reward_model"]["ground_truth"] for row in first]
    return {"rows": len(rows), "ground_truth": truths, "extra_info": [dict(row["extra_info"]) for row in first]}


def compute_advantages(core: Any, estimator: str) -> list[Any]:
    """Numbers of the project's own estimator, as `core`, verl's or the project's core_algos, has it."""
    import numpy as np
    import torch

    rewards = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    index = np.array(list("aaabbb"), dtype=object)
    function = core.get_adv_estimator_fn(estimator)
    return [
        item.tolist() for item in function(token_level_rewards=rewards, response_mask=torch.ones(6, 3), index=index)
    ]


def list_results(result: Any) -> dict[str, Any]:
    """What a reward manager that is called with a whole batch returns."""
    extra = {name: list(values) for name, values in result["reward_extra_info"].items()}
    return {"scores": result["reward_tensor"].sum(-1).tolist(), "extra": extra}


class Server:
    """Stands in for a server with a model that guesses 5, then 7."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._words = iter("57")

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Any:
        """The next word."""
        ids = self._tokenizer(next(self._words), add_special_tokens=False)["input_ids"]
        return SimpleNamespace(token_ids=ids[: sampling_params["max_tokens"]], log_probs=None)


class Under:
    """A release of verl, and a config of its own with an export's overrides."""

    def __init__(self, root: Path, export: Path, overrides: list[str]) -> None:
        import hydra
        import omegaconf

        self._stubber = prepare_upstream(root)
        self.module("verl")
        self.module("verl.trainer.ppo.ray_trainer")  # the hooks' modules import it, and packages that are not here
        runpy.run_path(str(export / "prepare.py"), run_name="__main__")
        with hydra.initialize_config_dir(str(root / "verl/trainer/config"), version_base=None):
            self.config = hydra.compose("ppo_trainer", overrides=overrides)
        omegaconf.OmegaConf.resolve(self.config)  # as main_ppo does
        for section in (self.config.actor_rollout_ref.model, self.config.critic.model):
            libraries = section.get("external_lib")
            if libraries:
                self.module("verl.utils.import_utils").import_external_libs(libraries)
        self.tokenizer = self.module("verl.utils.tokenizer").hf_tokenizer(str(export / "toy_model"))

    def module(self, name: str) -> Any:
        return import_upstream(name, self._stubber)

    def rewards(self) -> dict[str, Any]:
        """What the reward manager that verl makes gives the texts."""
        make = self.module("verl.trainer.ppo.reward").load_reward_manager
        data = make_batch(self.module("verl.protocol").DataProto, self.tokenizer)
        if "num_examine" in inspect.signature(make).parameters:
            arguments = self.config.reward_model.get("reward_kwargs", {})
            manager = make(self.config, self.tokenizer, num_examine=0, **arguments)
            return {"manager": _names(manager), **list_results(manager(data, return_dict=True))}

        async def one_by_one() -> Any:
            manager = make(self.config, self.tokenizer)
            return manager, [await manager.run_single(data[row : row + 1]) for row in range(len(data))]

        manager, results = asyncio.run(one_by_one())
        extra = {
            name: [item["reward_extra_info"][name] for item in results] for name in results[0]["reward_extra_info"]
        }
        return {"manager": _names(manager), "scores": [item["reward_score"] for item in results], "extra": extra}

    def prompts(self) -> dict[str, Any]:
        """The dataset that verl makes of the training data."""
        try:
            create = self.module("verl.trainer.ppo.utils").create_rl_dataset
        except (ImportError, AttributeError):
            create = self.module("verl.trainer.main_ppo").create_rl_dataset
        data = self.config.data
        rows = create(data.train_files, data, self.tokenizer, None)
        return {"class": _names(rows), **describe_rows(rows)}

    def episode(self) -> dict[str, Any] | None:
        """An episode by the agent loop of the export, with a model that always says the same; the hidden digit is 7."""
        import hydra
        from omegaconf import OmegaConf

        path = self.config.actor_rollout_ref.rollout.get("agent", {}).get("agent_loop_config_path")
        if not path:
            return None
        loops = self.module("verl.experimental.agent_loop.agent_loop")
        (settings,) = OmegaConf.load(path)
        wrap = getattr(loops, "DictConfigWrap", None) or loops._DummyConfig
        offered = {
            "trainer_config": wrap(config=self.config),
            "server_manager": Server(self.tokenizer),
            "tokenizer": self.tokenizer,
            "processor": None,
            "dataset_cls": self.module("verl.utils.dataset.rl_dataset").RLHFDataset,
            "data_config": wrap(config=self.config.data),
            "dataset_config": self.config.data,
            "hf_model_type": "qwen2",
        }
        taken = inspect.signature(loops.AgentLoopBase.__init__).parameters
        row = {"raw_prompt": [{"role": "user", "content": "?"}], "extra_info": {"digit": 7}}

        async def play() -> Any:
            loop = hydra.utils.instantiate(settings, **{key: value for key, value in offered.items() if key in taken})
            return await loop.run({"temperature": 1.0}, **row, data_source="test", index=0)

        output = asyncio.run(play())
        assert isinstance(output, loops.AgentLoopOutput)
        reward = getattr(output, "reward_score", None)
        return {"mask": list(output.response_mask), "turns": output.num_turns, "reward": reward}


def _names(thing: Any) -> list[str]:
    return [cls.__name__ for cls in type(thing).__mro__ if cls is not object]


def run_under_verl(estimator: str, root: str, export: str, file: str) -> dict[str, Any]:
    """What verl's own functions make of an export."""
    under = Under(Path(root), Path(export), json.loads(Path(file).read_text()))
    return {
        "rewards": under.rewards(),
        "prompts": under.prompts(),
        "advantages": compute_advantages(under.module("verl.trainer.ppo.core_algos"), estimator),
        "episode": under.episode(),
    }


def run_in_project(estimator: str, project: str, package: str, model: str, *settings: str) -> dict[str, Any]:
    """What the project itself makes of its hooks."""
    sys.path.insert(0, project)
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer

    def module(name: str) -> Any:
        return importlib.import_module(f"{package}.{name}")

    config = OmegaConf.create(dict(load(read_files(Path(project)), settings).config))
    tokenizer = AutoTokenizer.from_pretrained(model)
    module("custom")
    ranks, given = module("run.distributed").Ranks(), module("training.given").Given()
    make = module("training.rewarding").reward_functions
    reward_fn, _ = make(config, given, tokenizer, ranks, contextlib.ExitStack())
    data = make_batch(module("vendored.protocol").DataProto, tokenizer)
    rows, _ = module("data.datasets").build_datasets(config, tokenizer)
    return {
        "rewards": list_results(reward_fn(data, return_dict=True)),
        "prompts": describe_rows(rows),
        "advantages": compute_advantages(module("vendored.algorithms.core_algos"), estimator),
    }


if __name__ == "__main__":
    estimator, side, *words = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr):
        found = {"verl": run_under_verl, "project": run_in_project}[side](estimator, *words)
    print(json.dumps(found))
