# vextract:template base/__package__/settings/flags.py - edit freely
"""The command line of main.py: settings, and Hydra's own flags."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ..errors import ConfigError

MAIN = "ppo_trainer"


@dataclass(frozen=True)
class ConfigFiles:
    """Says where the files of a config are.

    Attributes:
        directory: the project's config directory.
        name: the file that the config starts from, without `.yaml`.
        path: a directory that is looked in before the project's.
        also: one that is looked in after it.
    """

    directory: Path
    name: str = MAIN
    path: Path | None = None
    also: Path | None = None

    @property
    def directories(self) -> list[Path]:
        """Return all of them, in the order in which they are looked in: Hydra wants the file's own first."""
        named = (self.path, self.directory, self.also)
        found = [directory.expanduser().resolve() for directory in named if directory is not None]
        return sorted(found, key=lambda directory: not (directory / f"{self.name}.yaml").is_file())

    def check(self) -> None:
        """Look for the file and for the directories.

        Raises:
            ConfigError: one is not there.
        """
        for flag, directory in (("--config-path", self.path), ("--config-dir", self.also)):
            if directory is not None and not directory.expanduser().is_dir():
                raise ConfigError(f"{flag} {directory}: no such directory", "give the path of a directory")
        if not any((directory / f"{self.name}.yaml").is_file() for directory in self.directories):
            names = sorted({file.stem for directory in self.directories for file in directory.glob("*.yaml")})
            raise ConfigError(f"--config-name {self.name}: no such file", f"there are {', '.join(names)}")


@dataclass(frozen=True)
class CommandLine:
    """Holds what a command line asks for.

    Attributes:
        overrides: settings, as they stand there.
        files: where the config is.
        flags: those that say so, as they stand there.
        cfg, info, multirun: whether these flags are given.
        trials: of how many runs `multirun` is a search; None: it does all combinations.
        plan: whether the memory of the run is to be planned.
        processes, memory: for how many, with so many GiB each; None: those of torchrun, and what this machine has.
    """

    overrides: list[str]
    files: ConfigFiles
    flags: list[str]
    cfg: bool
    info: bool
    multirun: bool
    trials: int | None = None
    plan: bool = False
    processes: int | None = None
    memory: float | None = None

    @property
    def without_overrides(self) -> list[str]:
        """Return the command line without its settings."""
        found = [f"--{name}" for name in ("cfg", "info", "multirun") if getattr(self, name)] + self.flags
        return found if self.trials is None else [*found, f"--trials={self.trials}"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise the project's own error."""
        raise ConfigError(message, "python main.py --help")


def parse(arguments: Sequence[str], directory: Path) -> CommandLine:
    """Read a command line.

    Args:
        arguments: without the program's name.
        directory: the project's config directory.

    Raises:
        ConfigError: a flag lacks its value.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    for name in ("cfg", "info", "multirun"):
        parser.add_argument(f"-{name[0]}", f"--{name}", action="store_true")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--memory", type=float)
    parser.add_argument("-cn", "--config-name")
    parser.add_argument("-cp", "--config-path", type=Path)
    parser.add_argument("-cd", "--config-dir", type=Path)
    parser.add_argument("--trials", type=int)
    # Hydra's own say what of the config is meant: --cfg job.
    shown = ("-c", "--cfg", "-i", "--info")
    words = [
        word
        for before, word in zip(["", *arguments], arguments, strict=False)
        if before not in shown or word not in ("job", "all")
    ]
    found, overrides = parser.parse_known_args(words)
    if found.trials is not None and (found.trials < 1 or not found.multirun):
        raise ConfigError(f"--trials {found.trials}", "it goes with --multirun, and is at least 1")
    for flag, number in (("--processes", found.processes), ("--memory", found.memory)):
        if number is not None and (number <= 0 or not found.plan):
            raise ConfigError(f"{flag} {number}", "it goes with --plan, and is more than 0")
    if found.plan and found.multirun:
        raise ConfigError("--plan --multirun", "plan one run at a time")
    name = (found.config_name or MAIN).removesuffix(".yaml")
    given = {"--config-name": found.config_name, "--config-path": found.config_path, "--config-dir": found.config_dir}
    return CommandLine(
        overrides,
        ConfigFiles(directory, name, found.config_path, found.config_dir),
        [f"{flag}={value}" for flag, value in given.items() if value is not None],
        found.cfg,
        found.info,
        found.multirun,
        found.trials,
        found.plan,
        found.processes,
        found.memory,
    )
