"""Run by tests in a process of its own: what the project itself makes of its hooks.

    python -m tests.importers.in_project PROJECT PACKAGE MODEL ESTIMATOR LOSS [SETTING...]

MODEL is a directory with the toy model's tokenizer. Prints JSON, in its last line.
"""

import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from extractor.importers.config.project import load, read_files
from tests.importers import inputs


def main(project: Path, package: str, model: str, estimator: str, loss: str, *settings: str) -> None:
    """Print rewards, prompts and algorithms as JSON."""
    sys.path.insert(0, str(project))
    with contextlib.redirect_stdout(sys.stderr):
        from omegaconf import OmegaConf
        from transformers import AutoTokenizer

        def module(name: str) -> object:
            return importlib.import_module(f"{package}.{name}")

        config = OmegaConf.create(dict(load(read_files(project), settings).config))
        tokenizer = AutoTokenizer.from_pretrained(model)
        module("custom")
        ranks = module("run.distributed").Ranks()  # type: ignore[attr-defined]
        given = module("training.given").Given()  # type: ignore[attr-defined]
        around = contextlib.ExitStack()
        make: Any = module("training.rewarding").reward_functions  # type: ignore[attr-defined]
        reward_fn, _ = make(config, given, tokenizer, ranks, around)
        data = inputs.batch(module("vendored.protocol").DataProto, tokenizer)  # type: ignore[attr-defined]
        result = reward_fn(data, return_dict=True)
        rows, _ = module("data.datasets").build_datasets(config, tokenizer)  # type: ignore[attr-defined]
        core = module("vendored.algorithms.core_algos")
        found = {
            "rewards": {
                "scores": result["reward_tensor"].sum(-1).tolist(),
                "extra": {name: list(values) for name, values in result["reward_extra_info"].items()},
            },
            "prompts": inputs.prompts(rows),
            "algorithms": inputs.algorithms(core, estimator, loss),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
