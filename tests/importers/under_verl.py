"""Run by tests in a process of its own: what an export names is loaded and called by verl's own functions.

    python -m tests.importers.under_verl VERL EXPORT OVERRIDES ESTIMATOR LOSS

VERL is an unpacked release; EXPORT what `vextract export` made; OVERRIDES a file with its overrides as JSON; ESTIMATOR
and LOSS names of algorithms of the project. It prints what came of them as JSON, in its last line.
"""

import asyncio
import contextlib
import inspect
import json
import runpy
import sys
from pathlib import Path
from typing import Any

from extractor.usecases.verify.driver.sides import import_upstream, prepare_upstream
from tests.importers import inputs


class Under:
    """A release of verl, and a config of its own with an export's overrides."""

    def __init__(self, root: Path, export: Path, overrides: list[str]) -> None:
        import hydra
        import omegaconf

        self._stubber = prepare_upstream(root)
        self.module("verl")
        self.module("verl.trainer.ppo.ray_trainer")  # the hooks' modules import it, and packages that are not here
        runpy.run_path(str(export / "prepare.py"), run_name="__main__")
        folder = str(root / "verl/trainer/config")
        with hydra.initialize_config_dir(folder, version_base=None):
            self.config = hydra.compose("ppo_trainer", overrides=overrides)
        omegaconf.OmegaConf.resolve(self.config)  # as main_ppo does
        self.export = export
        for section in (self.config.actor_rollout_ref.model, self.config.critic.model):
            libraries = section.get("external_lib")
            if libraries:
                self.module("verl.utils.import_utils").import_external_libs(libraries)
        self.tokenizer = self.module("verl.utils.tokenizer").hf_tokenizer(str(export / "toy_model"))

    def module(self, name: str) -> Any:
        return import_upstream(name, self._stubber)

    def dataclasses(self) -> list[str]:
        """The sections that name a class of verl's, made into it."""
        convert = getattr(self.module("verl.utils.config"), "omega_conf_to_dataclass", None)
        made = []
        sections = self.config.actor_rollout_ref
        for name in ("actor", "rollout", "model"):
            section = sections[name]
            if convert is not None and "_target_" in section:
                made.append(f"{name}: {type(convert(section)).__name__}")
        return made

    def rewards(self) -> dict[str, Any]:
        """What the reward manager that verl makes gives the texts of `inputs`."""
        load = self.module("verl.trainer.ppo.reward").load_reward_manager
        data = inputs.batch(self.module("verl.protocol").DataProto, self.tokenizer)
        if "num_examine" in inspect.signature(load).parameters:
            arguments = self.config.reward_model.get("reward_kwargs", {})
            manager = load(self.config, self.tokenizer, num_examine=0, **arguments)
            result = manager(data, return_dict=True)
            scores = result["reward_tensor"].sum(-1).tolist()
            extra = {name: list(values) for name, values in result["reward_extra_info"].items()}
            return {"manager": _names(manager), "scores": scores, "extra": extra}

        async def one_by_one() -> Any:
            manager = load(self.config, self.tokenizer)
            return manager, [await manager.run_single(data[row : row + 1]) for row in range(len(data))]

        manager, results = asyncio.run(one_by_one())
        extra = {
            name: [item["reward_extra_info"][name] for item in results] for name in results[0]["reward_extra_info"]
        }
        return {"manager": _names(manager), "scores": [item["reward_score"] for item in results], "extra": extra}

    def _rows(self) -> Any:
        try:
            create = self.module("verl.trainer.ppo.utils").create_rl_dataset
        except (ImportError, AttributeError):
            create = self.module("verl.trainer.main_ppo").create_rl_dataset
        data = self.config.data
        return create(data.train_files, data, self.tokenizer, None)

    def prompts(self) -> dict[str, Any]:
        """The dataset that verl makes of the training data."""
        rows = self._rows()
        return {"class": _names(rows), **inputs.prompts(rows)}

    def algorithms(self, estimator: str, loss: str) -> dict[str, Any]:
        """What verl finds under the names of the project's algorithms."""
        return inputs.algorithms(self.module("verl.trainer.ppo.core_algos"), estimator, loss)

    def episode(self) -> dict[str, Any] | None:
        """An episode by the agent loop of the export, with a model that always says the same."""
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
            "server_manager": inputs.Server(self.tokenizer),
            "tokenizer": self.tokenizer,
            "processor": None,
            "dataset_cls": self.module("verl.utils.dataset.rl_dataset").RLHFDataset,
            "data_config": wrap(config=self.config.data),
            "dataset_config": self.config.data,
            "hf_model_type": "qwen2",
        }
        taken = inspect.signature(loops.AgentLoopBase.__init__).parameters
        row = inputs.episode_row()

        async def play() -> Any:
            loop = hydra.utils.instantiate(settings, **{key: value for key, value in offered.items() if key in taken})
            return await loop.run({"temperature": 1.0}, **row)

        output = asyncio.run(play())
        assert isinstance(output, loops.AgentLoopOutput)
        return {
            "responses": self.tokenizer.decode(output.response_ids),
            "mask": list(output.response_mask),
            "turns": output.num_turns,
            "reward": getattr(output, "reward_score", None),
        }


def _names(thing: Any) -> list[str]:
    return [cls.__name__ for cls in type(thing).__mro__ if cls is not object]


def main(root: Path, export: Path, file: Path, estimator: str, loss: str) -> None:
    """Print what came of everything as JSON."""
    with contextlib.redirect_stdout(sys.stderr):
        under = Under(root, export, json.loads(file.read_text()))
        found = {
            "dataclasses": under.dataclasses(),
            "rewards": under.rewards(),
            "prompts": under.prompts(),
            "algorithms": under.algorithms(estimator, loss),
            "episode": under.episode(),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*(Path(item) for item in sys.argv[1:4]), *sys.argv[4:])
