"""The config that a run composes is Hydra's, whichever way its values get into it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import check_python

# `counted` calls a function, and returns what it returns and how often files were composed for that.
DRIVER = """
import json, sys
from pathlib import Path
from omegaconf import OmegaConf
from toy.errors import ConfigError
from toy.settings import loading
from toy.settings.flags import ConfigFiles

compose = loading._compose

def counted(function, *arguments):
    calls = []
    loading._compose = lambda *given: calls.append(1) or compose(*given)
    made = function(*arguments)
    loading._compose = compose
    return made, len(calls)

def outcome(work):
    try:
        return OmegaConf.to_container(work(), resolve=False)
    except ConfigError as error:
        return str(error)

def of_overrides(line):
    files = ConfigFiles(Path("config").resolve())
    chosen = [one for one in line if one.partition("=")[0] in loading.GROUPS]
    ours, times = counted(outcome, lambda: loading._with_settings(files, chosen, line)[0])
    return [ours == outcome(lambda: compose(files, line)), times]

def of_sizes(line, main=Path("config/ppo_trainer.yaml")):
    model, *line = line
    before, section, after = main.read_text().partition("  model:")
    main.write_text(before + section + after.replace("path: null", f"path: {model}", 1))
    config, times = counted(loading.load_config, main.parent.resolve(), line)
    main.write_text(before + section + after)
    return [config.data.train_batch_size, times]

print(json.dumps([globals()[sys.argv[1]](line) for line in json.load(sys.stdin)]))
"""
TEMPERATURE = "actor_rollout_ref.rollout.temperature"
ONCE: list[list[str]] = [
    [],
    [f"{TEMPERATURE}=0.7", f"{TEMPERATURE}=0.8"],
    ["scale=toy", "data.train_batch_size=8", "preset=rloo"],
    ["data.train_files=[a.parquet,'b c.parquet']"],
    ["trainer.project_name='a,b: {c}'", 'trainer.experiment_name="x=$y"'],
    ["data.max_response_length=${data.max_prompt_length}"],
    ["trainer.default_local_dir=runs/${trainer.experiment_name}/${oc.env:HOME}"],
]
ANEW = [
    ["+mine.key=1", f"{TEMPERATURE}=0.7"],
    ["++data.mine=[1,2]"],
    ["~data.shuffle"],
    ["data.shuffle=true,false"],
    ["data.shuffle=[1,"],
]
MODEL = "actor_rollout_ref.model.path"
TOY, FULL = 32, 1024
# The toy's sizes are there without a model, and composed once: the model in the file, and a command line.
SIZES = [
    (["null"], [TOY, 1]),
    (["null", "scale=full"], [FULL, 1]),
    (["null", f"{MODEL}=some/model"], [FULL, 1]),
    (["null", f"++{MODEL}=some/model"], [FULL, 2]),  # what adds is composed anew
    (["some/model"], [FULL, 2]),  # what was guessed is wrong
    (["some/model", f"{MODEL}=null"], [TOY, 1]),
    (["${data.custom_cls.name}"], [TOY, 1]),
]
# Of overrides: whether it is as Hydra composes it, and how often files were composed for that.
OVERRIDES = [*((line, [True, 1]) for line in ONCE), *((line, [True, 2]) for line in ANEW)]


@pytest.mark.parametrize(("function", "cases"), [("of_overrides", OVERRIDES), ("of_sizes", SIZES)])
def test_what_is_composed_and_how_often(project: Path, function: str, cases: list[tuple[list[str], Any]]) -> None:
    done = check_python(project, "-c", DRIVER, function, stdin=json.dumps([line for line, _ in cases]))
    found = json.loads(done.stdout)
    assert [*zip([line for line, _ in cases], found, strict=True)] == cases
