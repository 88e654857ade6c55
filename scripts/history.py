"""Write `manifests/history.toml`: `python scripts/history.py CLONE` of a clone of verl's repository with its history.

It has the fingerprints of every version, on any branch and of every supported release, of the files that decide what is
trained, and of the reward managers that programs defined before there was a folder of them. By these a copy of verl
that somebody changed is told from one that is only of another day than a release.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import warnings
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path

import tomlkit
from tomlkit.items import Array

from extractor.pipeline.source import open_source
from extractor.usecases.fromrun.taken_over.own_verl import manager_of_program
from extractor.values import readers, releases
from extractor.values.fingerprint import fingerprint

TARGET = Path(__file__).resolve().parents[1] / "manifests" / "history.toml"
WATCHED = (
    "verl/trainer/ppo/core_algos.py",
    "verl/trainer/ppo/ray_trainer.py",
    "verl/trainer/ppo/reward.py",
    "verl/utils/dataset/rl_dataset.py",
    "verl/utils/reward_score/*.py",
    "verl/utils/torch_functional.py",
    "verl/workers/actor/dp_actor.py",
    "verl/workers/critic/dp_critic.py",
    "verl/workers/reward_manager/*.py",
)
PROGRAMS = ("verl/trainer/main_ppo.py", "examples/split_placement/main_ppo_split.py")


def versions(clone: Path) -> Iterator[tuple[str, str]]:
    """Yield path and object of every version of the watched files."""
    command = ["log", "--all", "--format=", "--raw", "--no-abbrev", "--no-renames", "-m", "--", *_pathspecs()]
    for line in _git(clone, *command).splitlines():
        fields, _, path = line.partition("\t")
        found = fields.split()[3]
        if found.strip("0"):
            yield path, found


def _pathspecs() -> list[str]:
    return [f":(glob){path}" for path in (*WATCHED, *PROGRAMS)]


def _git(clone: Path, *command: str) -> str:
    return subprocess.run(["git", "-C", str(clone), *command], capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    clone = parser.parse_args().clone
    found: dict[str, set[str]] = {}
    programs: set[str] = set()

    def add(path: str, tree: ast.Module) -> None:
        if path not in PROGRAMS:
            found.setdefault(path, set()).add(fingerprint(tree))
        elif (manager := manager_of_program(tree)) is not None:
            programs.add(fingerprint(manager))

    warnings.simplefilter("ignore", SyntaxWarning)
    for path, name in sorted(set(versions(clone))):
        try:
            add(path, readers.python(_git(clone, "cat-file", "blob", name)))
        except SyntaxError:
            continue
    for release in releases.supported():
        source = open_source(releases.load(release).pin)
        for path in source.files:
            if any(fnmatch(path, pattern) for pattern in (*WATCHED, *PROGRAMS)):
                add(path, readers.python(source.read(path)))
    text = tomlkit.document()
    text.add(tomlkit.comment("Written by scripts/history.py. Fingerprints (extractor/values/fingerprint.py) of every"))
    text.add(tomlkit.comment("version that verl's repository ever had of the files that decide what is trained."))
    text.add("programs", _listed(programs))
    files = tomlkit.table()
    for path, names in sorted(found.items()):
        files.add(path, _listed(names))
    text.add("files", files)
    TARGET.write_text(tomlkit.dumps(text), encoding="utf-8")
    print(f"{TARGET}: {sum(map(len, found.values()))} versions of {len(found)} files, {len(programs)} of managers")


def _listed(names: Collection[str]) -> Array:
    return tomlkit.array(str(sorted(names)).replace("'", '"')).multiline(len(names) > 6)


if __name__ == "__main__":
    main()
