"""One script in both worlds: what is handed to full verl, as far as it runs without a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import environment, overrides
from tests.project.support import PACKAGE, REPOSITORY, Configuration, Made
from tests.releases import newest_release, source_of

pytestmark = pytest.mark.slow
# In place of `python` in run.sh: what verl would be started with.
RECORDING = f"""#!/usr/bin/env bash
if [ "$1" = -m ]; then
    exec {sys.executable} -c 'import json, sys; json.dump(sys.argv[3:], open("words.json", "w"))' "$@"
fi
exec {sys.executable} "$@"
"""
UNDER_VERL = """
import json, sys
from pathlib import Path
from tests.importers.under_verl import Under
under = Under(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))
rows = under._rows()
rewards = under.rewards()
print(json.dumps({
    "rows": len(rows), "class": type(rows).__name__, "dataclasses": under.dataclasses(), "scores": rewards["scores"],
    "lr": under.config.actor_rollout_ref.actor.optim.lr, "batch": under.config.data.train_batch_size,
}))
"""
REFUSALS = """
import functools, json, sys
from {package} import ConfigError, create_trainer, load_config
from torch.utils.data import Dataset
from apart import column
def reward(data_source, solution_str, ground_truth, extra_info=None): return 1.0
def manager(data, return_dict=False): return 1.0
def states(completions, trainer_state): return [1.0]
class Scorer:
    def __call__(self, response): return 1.0
def outer():
    def inner(data_source, solution_str, ground_truth, extra_info=None): return 1.0
    return inner
class Rows(Dataset):
    def __len__(self): return 1
    def __getitem__(self, index): return {{"input_ids": [1]}}
ROWS = [{{"prompt": "1=", "ground_truth": "2"}}]
CASES = [
    dict(reward_fn=lambda data_source, solution_str, ground_truth, extra_info=None: 1.0),
    dict(reward_fn=outer()), dict(reward_fn=Scorer()), dict(reward_fn=reward, model=object()),
    dict(reward_fn=[reward, manager]), dict(reward_fn=manager), dict(reward_fn=states),
    dict(reward_fn=column, train_dataset="some.parquet"), dict(val_reward_fn=reward), dict(environment=Scorer),
    dict(train_dataset=Rows()), dict(val_dataset=ROWS), dict(train_dataset=[{{"question": "1"}}]),
    dict(train_dataset=ROWS, reward_fn=reward, verl_settings=[]),
]
config = load_config()
said = []
for case in CASES:
    try:
        create_trainer(config, use_ray=True, directory="never", **case)
        said.append("")
    except ValueError as error:
        said.append(str(error))
print(json.dumps(said))
"""

# Rewards of several forms, with weights, another in validation, columns and prompts.
SEVERAL = """
import sys
from {package} import create_trainer, load_config
def length(completions, **columns): return [float(len(completion)) for completion in completions]
def level(response, level, prompt): return {{"score": float(level), "same": float(prompt.startswith(str(level)))}}
def queries_of(queries, prompts, labels): return [float(q.startswith(p)) for q, p in zip(queries, prompts)]
class Echo:
    def reset(self, *, seed=None, options=None):
        return "4=", {{"ground_truth": "8"}}
    def step(self, action):
        return "", float(action == "48"), True, False, {{"seen": len(action)}}
ROWS = [{{"prompt": f"{{n}}=", "solution": str(n), "level": n}} for n in range(10)] * 8
if __name__ == "__main__":
    rewards = dict(reward_fn=[length, level, queries_of], reward_weights=[1.0, 0.5, 2.0], val_reward_fn=level)
    given = rewards | dict(train_dataset=ROWS, val_dataset=ROWS[:5])
    for name, given in {{"several": given, "played": dict(environment=Echo)}}.items():
        create_trainer(load_config(), use_ray=True, directory=f"{{sys.argv[1]}}/{{name}}", **given)
"""
CALLED = """
import json, sys
import pandas
from pathlib import Path
from tests.importers import inputs
from tests.importers.under_verl import Under
export, batch = Path(sys.argv[2]), inputs.batch
def batch_of_rows(proto, tokenizer):
    made = batch(proto, tokenizer)
    made.non_tensor_batch["extra_info"][:] = [row["extra_info"]] * len(made)
    return made
under = Under(Path(sys.argv[1]), export, json.loads(Path(sys.argv[3]).read_text()))
inputs.batch = batch_of_rows
for split in ("train", "val"):
    row = pandas.read_parquet(export / "data" / f"{split}.parquet").iloc[3]
    print(json.dumps(under.rewards()))
"""


@pytest.fixture(scope="module", params=newest_release())
def project(
    request: pytest.FixtureRequest, made: Callable[[Configuration], Made], tmp_path_factory: pytest.TempPathFactory
) -> Made:
    source = made(Configuration(request.param, "hf", features=("ray",)))
    root = Path(shutil.copytree(source.root, tmp_path_factory.mktemp("on_ray") / "project"))
    return Made(source.configuration, source.options, source.manifest, source.source, source.generated, root)


def installed(folder: Path, **packages: str) -> Path:
    """What pip notes of packages that are installed; the tests read verl itself from its unpacked release."""
    for name, version in packages.items():
        notes = folder / f"{name}-{version}.dist-info"
        notes.mkdir(parents=True, exist_ok=True)
        (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def run(root: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a project, which is on its path, and so is this checkout."""
    path = os.pathsep.join([str(root), str(REPOSITORY), variables.pop("PYTHONPATH", "")])
    env = {**environment(root), "PYTHONPATH": path, **variables}
    return subprocess.run([sys.executable, *words], cwd=root, env=env, capture_output=True, text=True, timeout=300)


def test_the_example_trains_here(project: Made) -> None:
    done = run(project.root, "examples/migration.py", *overrides("trainer.logger=[]"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == f"checkpoints/{PACKAGE}/migration/global_step_2"


@pytest.mark.thorough
def test_verl_reads_what_the_example_hands_over(project: Made, tmp_path: Path) -> None:
    """The release's own config tree composes it; its dataset reads the prompts, its reward manager has the function."""
    if project.options.verl == "0.4.0":
        pytest.skip("an export for verl 0.4.0 is checked by its config alone")
    release, root = project.options.verl, project.root
    site = installed(tmp_path / "site", verl=release, ray="2.60.0")
    settings = [*overrides("trainer.logger=[]"), "actor_rollout_ref.actor.optim.lr=0.003", "local.seed=5"]
    done = run(root, "examples/migration.py", *settings, USE_RAY="true", PYTHONPATH=str(site))
    assert "not carried over: local.seed" in done.stderr
    assert "verl ended with exit code" in done.stderr  # which is not installed here
    (directory,) = root.with_name("project-verl").glob("migration_*")
    (answer,) = under_verl(project, directory, tmp_path, UNDER_VERL)
    assert answer["rows"] == 80
    assert answer["class"] == "RLHFDataset"
    assert (answer["lr"], answer["batch"]) == (0.003, 8)
    assert all(0 <= score <= 1 for score in answer["scores"])
    assert answer["scores"]


@pytest.mark.thorough
def test_verl_calls_rewards_of_every_form(project: Made, tmp_path: Path) -> None:
    """Several functions with weights, others in validation, and an environment: one sample at a time."""
    root, release = project.root, project.options.verl
    if release == "0.4.0":
        pytest.skip("an export for verl 0.4.0 is checked by its config alone")
    (root / "several.py").write_text(SEVERAL.format(package=PACKAGE))
    site = installed(tmp_path / "site", verl=release, ray="2.60.0")
    done = run(root, "several.py", str(tmp_path), PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr[-3000:]
    train, val = under_verl(project, tmp_path / "several", tmp_path, CALLED)
    lengths = train["extra"]["length"]
    assert (lengths[:2], lengths[3:]) == ([2, 2], [3])  # the third response is no token of the toy model's
    assert train["extra"]["same"] == train["extra"]["queries_of"] == [1] * 4
    assert train["scores"] == [length + 0.5 * 3 + 2 for length in lengths]
    assert val["scores"] == [3] * 4
    for answer in under_verl(project, tmp_path / "played", tmp_path, CALLED):
        assert answer["scores"] == [1, 0, 0, 0]
        assert answer["extra"]["seen"] == lengths


def under_verl(project: Made, directory: Path, tmp_path: Path, program: str) -> list[Any]:
    """Run a program with the release of verl, the export in a directory, and what its run.sh passes to verl.

    Returns:
        What it prints, from JSON.
    """
    root, release = project.root, project.options.verl
    stub = tmp_path / "bin/python"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text(RECORDING)
    stub.chmod(0o755)
    env = {**environment(root), "PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", str(directory / "run.sh"), "x=1"], cwd=tmp_path, env=env, check=True, capture_output=True)
    words = json.loads((tmp_path / "words.json").read_text())
    assert words.pop() == "x=1"
    (tmp_path / "words.json").write_text(json.dumps(words))
    for path, data in source_of(release).files.items():
        place = tmp_path / "verl" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    script = 'source "$1/env.sh" && exec "$PYTHON" -c "$2" "$3" "$1" "$4"'
    arguments = [str(directory), program, str(tmp_path / "verl"), str(tmp_path / "words.json")]
    env = {**env, "PYTHONPATH": str(REPOSITORY), "PYTHON": sys.executable}
    loaded = subprocess.run(["bash", "-c", script, "bash", *arguments], env=env, capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr[-3000:]
    return [json.loads(line) for line in loaded.stdout.splitlines() if line.startswith("{")]


@pytest.mark.thorough
def test_what_cannot_be_handed_over_is_said(project: Made, tmp_path: Path) -> None:
    root, release = project.root, project.options.verl
    (root / "apart.py").write_text("def column(response, level): return 1.0")
    (root / "refused.py").write_text(REFUSALS.format(package=PACKAGE))
    (root / "unguarded.py").write_text(
        textwrap.dedent(
            f"""
            from {PACKAGE} import create_trainer, load_config
            def reward(data_source, solution_str, ground_truth, extra_info=None): return 1.0
            trainer = create_trainer(load_config(), use_ray=True, directory="never", reward_fn=reward)
            """
        )
    )
    here = installed(tmp_path / "here", verl=release, ray="2.60.0")
    other = installed(tmp_path / "other", verl="0.0.1", ray="2.60.0")
    without = run(root, "unguarded.py")
    assert "verl is not installed" in without.stderr
    assert f"verl[vllm]=={release}" in without.stderr
    wrong = run(root, "unguarded.py", PYTHONPATH=str(other))
    assert f"verl 0.0.1 is installed, and this project is made from {release}" in wrong.stderr
    unguarded = run(root, "unguarded.py", PYTHONPATH=str(here))
    assert "line 4 of" in unguarded.stderr
    assert '__name__ == "__main__"' in unguarded.stderr
    done = run(root, "refused.py", PYTHONPATH=str(here))
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    wanted = (
        "cannot import a lambda",
        "inner, which is not at the top of a file",
        "an object (Scorer) has none",
        "cannot be given model",
        "a reward manager is among several rewards",
        "cannot be given a reward manager",
        "states takes trainer_state",
        "column asks for prompts or columns",
        "and no reward_fn",
        "(class Scorer) is without reset and step",
        "a train dataset of tokens (Rows)",
        "a val_dataset is given",
        "no column 'prompt'",
        "would run again in verl's workers",
    )
    assert [part for part, text in zip(wanted, said, strict=True) if part not in text] == []
    assert not (root / "never").exists()
