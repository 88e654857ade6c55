"""The config that a run composes is Hydra's, whichever way its values get into it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DRIVER = """
import json, sys
from pathlib import Path
from omegaconf import OmegaConf
from toy.errors import ConfigError
from toy.settings import loading
from toy.settings.flags import ConfigFiles

files = ConfigFiles(Path("config").resolve())
composed, answers = [0], []
compose = loading._compose

def counted(*arguments):
    composed[0] += 1
    return compose(*arguments)

def outcome(work):
    try:
        return OmegaConf.to_container(work(), resolve=False)
    except ConfigError as error:
        return str(error)

for line in json.load(sys.stdin):
    chosen = [one for one in line if one.partition("=")[0] in loading.GROUPS]
    values = [one for one in line if one not in chosen]
    loading._compose, composed[0] = counted, 0
    ours = outcome(lambda: loading._with_settings(files, chosen, [], values)[0])
    times, loading._compose = composed[0], compose
    answers.append([ours == outcome(lambda: compose(files, line)), times])
print(json.dumps(answers))
"""
TEMPERATURE = "actor_rollout_ref.rollout.temperature"
ONCE = [
    [],
    [f"{TEMPERATURE}=0.7"],
    [f"{TEMPERATURE}=0.7", f"{TEMPERATURE}=0.8"],
    ["scale=toy", "data.train_batch_size=8", "preset=rloo"],
    ["data.train_files=[a.parquet,'b c.parquet']"],
    ["data.train_files=null", "data.val_files=[]"],
    ["trainer.project_name='a,b: {c}'", 'trainer.experiment_name="x=$y"'],
    ["actor_rollout_ref.actor.optim.lr=1e-6", "trainer.total_training_steps=007"],
    ["data.max_response_length=${data.max_prompt_length}"],
    ["trainer.default_local_dir=runs/${trainer.experiment_name}/${oc.env:HOME}"],
    ["trainer.logger=[]", "data.seed=int(1)", "trainer.experiment_name="],
]
ANEW = [
    ["+mine.key=1", f"{TEMPERATURE}=0.7"],
    ["++data.mine=[1,2]"],
    ["~data.shuffle"],
    ["data.shuffle=true,false"],
    ["data={shuffle: false}"],
    ["data.shuffle=[1,"],
]


def test_values_give_what_hydra_composes_from_all_overrides(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=project,
        input=json.dumps(ONCE + ANEW),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [[True, 1]] * len(ONCE) + [[True, 2]] * len(ANEW)  # alike; and how often files were composed for it
    found = json.loads(done.stdout)
    assert [*zip(ONCE + ANEW, found, strict=True)] == [*zip(ONCE + ANEW, expected, strict=True)]


SIZES_DRIVER = """
import json, sys
from pathlib import Path
from toy.settings import loading

composed = [0]
compose = loading._compose

def counted(*arguments):
    composed[0] += 1
    return compose(*arguments)

loading._compose = counted
main = Path("config/ppo_trainer.yaml")
as_it_came, answers = main.read_text(), []
for model, line in json.load(sys.stdin):
    before, section, after = as_it_came.partition("  model:")
    main.write_text(before + section + after.replace("path: null", f"path: {model}", 1))
    composed[0] = 0
    config = loading.load_config(main.parent.resolve(), line)
    answers.append([config.data.train_batch_size, composed[0]])
print(json.dumps(answers))
"""
MODEL = "actor_rollout_ref.model.path"
TOY, FULL = 32, 1024
SIZES = {
    ("null",): [TOY, 1],
    ("null", "preset=rloo"): [TOY, 1],
    ("null", "scale=full"): [FULL, 1],
    ("null", f"{MODEL}=some/model"): [FULL, 1],
    ("null", f"++{MODEL}=some/model"): [FULL, 2],  # what adds is composed anew
    ("null", f"{MODEL}=null"): [TOY, 1],
    ("some/model",): [FULL, 2],  # what was guessed is wrong
    ("some/model", "scale=toy"): [TOY, 1],
    ("some/model", f"{MODEL}=null"): [TOY, 1],
    ("${data.custom_cls.name}",): [TOY, 1],
}


def test_the_sizes_of_the_toy_are_there_without_a_model_and_composed_once(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIZES_DRIVER],
        cwd=project,
        input=json.dumps([(model, line) for model, *line in SIZES]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert dict(zip(SIZES, json.loads(done.stdout), strict=True)) == SIZES
