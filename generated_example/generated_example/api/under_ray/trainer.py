# vextract:template base/__package__/api/under_ray/trainer.py.jinja - edit freely
"""The same experiment on full verl under Ray, on what `vextract export` writes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from ...errors import ConfigError, ProjectError
from ...settings import reward_keys
from ..configuration import as_overrides, load_config
from ..inputs.given import Given
from .rewards import ADAPTER, MODULE, given_rewards, states_of, with_columns

if TYPE_CHECKING:
    from ...training.trainer import LocalPPOTrainer

VERL = "0.9.1"
PROJECT = Path(__file__).resolve().parents[3]


class RayRunError(ProjectError):
    """The run of verl ended with an error, which it has printed."""


@dataclass(frozen=True)
class RayResult:
    """A run of verl that has ended.

    Attributes:
        directory: where it was started from, with its settings, data and checkpoints.
    """

    directory: Path

    @property
    def last_checkpoint(self) -> Path | None:
        """Return the last checkpoint, in verl's format; None: there is none."""
        places = (self.directory / "checkpoints").glob("global_step_*")
        return max(places, key=lambda path: int(path.name.rpartition("_")[2]), default=None)


class RayTrainer:
    """Trains by full verl under Ray, in processes of its own, from a directory that it makes.

    Args:
        config: the whole config, from `load_config`. What only this project has, such as `local`, does not count.
        train_dataset, val_dataset: rows as `LocalPPOTrainer` takes them, or names of files.
        reward_fn, val_reward_fn, reward_weights, environment: as `LocalPPOTrainer` takes them, if functions and classes
            are at the top of a file; see `api/under_ray/rewards.py`.
        directory: is made; None: a new one in PROJECT-verl, beside the project.
        verl_settings: overrides of verl's own config, such as "ray_kwargs.ray_init.num_cpus=24".

    Attributes:
        directory: as `vextract export` writes it; KEYS.md there says what became of each setting.

    Raises:
        ConfigError: verl, Ray or vextract is not installed, or something cannot be handed over.
        DataError: a row cannot be used.
    """

    def __init__(
        self,
        config: Any,
        *,
        train_dataset: Any = None,
        val_dataset: Any = None,
        reward_fn: Any = None,
        val_reward_fn: Any = None,
        reward_weights: Any = None,
        environment: Any = None,
        directory: str | Path | None = None,
        verl_settings: Sequence[str] = (),
    ) -> None:
        check_installed()
        self.config = config
        self.directory = _new_directory(config) if directory is None else Path(directory).absolute()
        self._verl_settings = [f"hydra.run.dir={self.directory}/outputs", *verl_settings]
        self._path: list[str] = []
        given: dict[str, Any] = {"trainer.default_local_dir": str(self.directory / "checkpoints")}
        scores = Given(train_dataset, val_dataset, reward_fn, val_reward_fn, reward_weights, environment)
        rewards = given_rewards(config, scores)
        if rewards is not None:
            self._path += rewards.folders
            penalises = OmegaConf.select(config, f"{reward_keys.OVERLONG}.enable")
            file, name = rewards.direct or (self.directory / ADAPTER, "compute_score")
            given[reward_keys.MANAGER] = "dapo" if penalises else "naive"
            given |= {f"{reward_keys.FUNCTION}.path": str(file), f"{reward_keys.FUNCTION}.name": name}
        if environment is not None and train_dataset is None:
            train_dataset, val_dataset = states_of(environment, config)
        tables = _tables(config, train_dataset, val_dataset, needs_truth=rewards is None)
        if rewards is not None:
            rewards.check_files(split for split, rows in tables.items() if _is_files(rows))
        given |= self._files(tables)
        self._export([*changed_settings(config), *as_overrides(given)], rewards is not None and not rewards.direct)
        if rewards is not None and not rewards.direct:
            rewards.write(self.directory)
        for split, rows in tables.items():
            if not _is_files(rows):
                rows = rows if rewards is None or rewards.direct else [with_columns(row, split, config) for row in rows]
                _write(rows, self.directory / f"data/{split}.parquet")

    def __enter__(self) -> "RayTrainer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: verl has ended with `fit`. It is there because `LocalPPOTrainer` has it."""

    def fit(self) -> RayResult:
        """Train: start verl's main_ppo, and wait until it has ended. It prints what it prints.

        NNODES and GPUS, of the environment, say how many machines there are, and GPUs in each; by default one, and
        those that torch finds.

        Raises:
            RayRunError: it failed.
        """
        done = subprocess.run(["bash", str(self.directory / "run.sh"), *self._verl_settings], env=self._environment())
        if done.returncode:
            raise RayRunError(
                f"verl ended with exit code {done.returncode}\nhint: {self.directory}/run.sh has started it"
            )
        return RayResult(self.directory)

    def _files(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that name the prompts."""
        if not tables:
            return {}
        names = {
            split: rows if _is_files(rows) else [str(self.directory / f"data/{split}.parquet")]
            for split, rows in tables.items()
        }
        settings: dict[str, Any] = {"data.train_files": names["train"], "data.custom_cls.path": None}
        settings["data.val_files"] = names.get("val", names["train"])
        if "val" not in names:
            settings |= {"trainer.test_freq": -1, "trainer.val_before_train": False}
        return settings

    def _export(self, settings: list[str], adapts: bool) -> None:
        words = [word for setting in settings for word in ("--set", setting)] + ["--include", MODULE] * adapts
        command = [_vextract(), "export", str(PROJECT), "--to", "verl", "--output", str(self.directory), "--json"]
        done = subprocess.run([*command, *words], capture_output=True, text=True)
        if done.returncode:
            message, _, hint = done.stderr.strip().rpartition("hint: ")
            raise ConfigError(f"the export to verl failed: {message.strip() or hint}", hint or "see vextract export")
        _say(self.directory, json.loads(done.stdout), settings, done.stderr)

    def _environment(self) -> dict[str, str]:
        import torch

        gpus = str(max(1, torch.cuda.device_count()))
        here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        path = os.pathsep.join([*self._path, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        return {"GPUS": gpus, **os.environ, "PATH": here, "PYTHONPATH": path}


def create_trainer(config: Any, *, use_ray: bool | None = None, **given: Any) -> "LocalPPOTrainer | RayTrainer":
    """Return what trains: here, or on full verl under Ray. Both are used in a `with` statement, and have `fit`.

    Args:
        config: the whole config, from `load_config`.
        use_ray: whether it is verl; None: if the environment variable USE_RAY is true, yes or 1.
        given: what `LocalPPOTrainer` takes. `RayTrainer` takes datasets, rewards and environments of it.

    Raises:
        ConfigError: something cannot be used, or cannot be handed to verl.
    """
    if use_ray is None:
        use_ray = os.environ.get("USE_RAY", "").lower() in ("1", "true", "yes")
    if use_ray:
        taken = {"train_dataset", "val_dataset", "reward_fn", "val_reward_fn", "reward_weights", "environment"}
        taken |= {"directory", "verl_settings"}
        refused = sorted(name for name, value in given.items() if name not in taken and value is not None)
        if refused:
            raise ConfigError(
                f"verl under Ray cannot be given {', '.join(refused)}",
                "verl's workers are other processes: name models in the config, and write hooks in custom/",
            )
        return RayTrainer(config, **{name: value for name, value in given.items() if name in taken})
    from ...training.trainer import LocalPPOTrainer

    for name in ("directory", "verl_settings"):  # of RayTrainer alone
        given.pop(name, None)
    return LocalPPOTrainer(config, **given)


def check_installed() -> None:
    """Check that verl, of the project's release, and Ray are installed.

    Raises:
        ConfigError: one is not, or verl is of another release.
    """
    for name in ("verl", "ray"):
        try:
            found = version(name)
        except PackageNotFoundError:
            raise ConfigError(
                f"{name} is not installed, and training under Ray needs it", f"pip install 'verl[vllm]=={VERL}' ray"
            ) from None
        if name == "verl" and found != VERL:
            raise ConfigError(
                f"verl {found} is installed, and this project is made from {VERL}",
                f"pip install verl=={VERL}; or vextract upgrade --to {found}",
            )


def changed_settings(config: Any) -> list[str]:
    """Return the settings of a config that are not the project's defaults, as on the command line."""
    model = {"actor_rollout_ref.model.path": config.actor_rollout_ref.model.path}
    default = load_config(*([model] if config.actor_rollout_ref.model.path else []))
    mine, usual = (as_overrides(_resolved(item)) for item in (config, default))
    known = {word.partition("=")[0] for word in usual}
    usual_words = set(usual)
    return [word if word.partition("=")[0] in known else f"+{word}" for word in mine if word not in usual_words]


def _resolved(config: Any) -> dict[str, Any]:
    found: Any = OmegaConf.to_container(config, resolve=True)
    return dict(found)


def _say(directory: Path, report: Mapping[str, Any], settings: Iterable[str], remarks: str) -> None:
    """Say what of the caller's settings verl has not."""
    changed = {setting.partition("=")[0].lstrip("+") for setting in settings}
    dropped = [key for key in report["keys"] if key["status"] == "dropped" and key["key"] in changed]
    print(f"for verl {VERL}: {directory}, where KEYS.md says what became of each setting", file=sys.stderr)
    for key in dropped:
        print(f"not carried over: {key['key']} ({key['reason']})", file=sys.stderr)
    if remarks.strip():
        print(remarks.strip(), file=sys.stderr)


def _vextract() -> str:
    beside = Path(sys.executable).with_name("vextract")
    found = str(beside) if beside.is_file() else shutil.which("vextract")
    if found is None:
        raise ConfigError(
            "vextract is not installed, and it writes what verl is started with",
            "install it as where the project was made: its `export` command is used",
        )
    return found


def _new_directory(config: Any) -> Path:
    place = PROJECT.with_name(f"{PROJECT.name}-verl")
    name = str(config.trainer.experiment_name)
    return next(path for path in (place / f"{name}_{number}" for number in range(1, 10**6)) if not path.exists())


def _is_files(rows: Any) -> bool:
    return all(isinstance(row, str) for row in rows)


def _tables(config: Any, train: Any, val: Any, *, needs_truth: bool) -> dict[str, Any]:
    """Return the prompts of each split that is given: names of files, or rows in verl's schema."""
    from ...data.datasets import data_section, rows_in_schema
    from ..inputs.rows import files_of, rows_of

    data, found = data_section(config), dict[str, Any]()
    for split, value in (("train", train), ("val", val)):
        if value is None:
            continue
        found[split] = files_of(value, split)
        if found[split] is not None:
            continue
        rows = rows_of(value, split, data.get("env") or {}, data.get("prompt_key", "prompt"))
        if rows is None:
            raise ConfigError(
                f"verl under Ray cannot be given a {split} dataset of tokens ({type(value).__name__})",
                "give rows or names of files; a dataset class is named in the config: data.custom_cls",
            )
        schema = rows_in_schema(rows, split, data, needs_truth=needs_truth)
        found[split] = schema
    if "val" in found and "train" not in found:
        raise ConfigError("a val_dataset is given, and no train_dataset", "give both, or name files in the config")
    return found


def _write(rows: list[dict[str, Any]], file: Path) -> None:
    import datasets

    from ...data.datasets import GIVEN_PROMPT

    rows = [{name: value for name, value in row.items() if name != GIVEN_PROMPT} for row in rows]
    datasets.disable_progress_bars()
    file.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_list(rows).to_parquet(str(file))
