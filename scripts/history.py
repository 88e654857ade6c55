"""Write what upstream ever had: `python scripts/history.py CLONE RECIPES`, of clones with their history.

CLONE is of verl's repository, RECIPES of verl-recipe, where its recipes are since 2026.

`manifests/history.json.gz` has the fingerprints, of any branch and of every supported release:

- `files`: every version of the files that decide what is trained;
- `programs`: the reward managers that programs defined before there was a folder of them;
- `parts`: every top-level statement of any version of verl's files and recipes, and their files that are no Python;
- `texts`: these statements with their comments and all that is printed;
- `keys`: no fingerprints, the names in keys of its config.

By these a copy of verl that somebody changed is told from one that is only of another day than a release. Proposals
that were not merged are not upstream's.
"""

import argparse
import ast
import gzip
import json
import re
import subprocess
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from extractor.importers.runs.copied_code.managers import find_program_managers
from extractor.pipeline.merge.pieces import Unsupported
from extractor.pipeline.merge.python import split_python
from extractor.pipeline.source import open_source
from extractor.values import readers, releases
from extractor.values.fingerprint import fingerprint, fingerprint_statement, fingerprint_text, fingerprint_with_comments

MANIFESTS = Path(__file__).resolve().parents[1] / "manifests"
HISTORY = MANIFESTS / "history.json.gz"
PARTS = ("verl/", "recipe/")
SUFFIXES = (".py", ".yaml", ".yml", ".json", ".md", ".sh")
WATCHED = (
    "verl/trainer/ppo/core_algos.py",
    "verl/trainer/ppo/ray_trainer.py",
    "verl/trainer/ppo/reward.py",
    "verl/utils/dataset/rl_dataset.py",
    "verl/utils/reward_score/*.py",
    "verl/utils/torch_functional.py",
    "verl/workers/actor/dp_actor.py",
    "verl/workers/critic/dp_critic.py",
    "verl/workers/fsdp_workers.py",
    "verl/workers/reward_manager/*.py",
    "verl/workers/rollout/*/*.py",
)
CONFIG, KEY = "trainer/config/", re.compile(r"^[\s#]*([A-Za-z_]\w*):", re.MULTILINE)
PROGRAMS = ("verl/trainer/main_ppo.py", "examples/split_placement/main_ppo_split.py")


def versions(clone: Path, *paths: str) -> Iterator[tuple[str, str]]:
    """Yield path and object of each version of these files, on a branch or under a tag."""
    command = ["log", "--branches", "--tags", "--format=", "--raw", "--no-abbrev", "--no-renames", "-m", "--", *paths]
    for line in _git(clone, *command).splitlines():
        fields, _, path = line.partition("\t")
        found = fields.split()[3]
        if found.strip("0") and path.endswith(SUFFIXES):
            yield path, found


def _git(clone: Path, *command: str) -> str:
    return subprocess.run(["git", "-C", str(clone), *command], capture_output=True, text=True, check=True).stdout


def _list_upstream(clone: Path, recipes: Path) -> Iterator[tuple[str, str]]:
    """Yield path and text of every version, and of every supported release."""
    yield from _read_versions(clone, *PARTS, *PROGRAMS)
    yield from ((f"recipe/{path}", text) for path, text in _read_versions(recipes, "."))
    for release in releases.list_supported():
        source = open_source(releases.load(release).pin)
        for path in source.files:
            if path.endswith(SUFFIXES):
                yield path, source.read(path)


def _read_versions(clone: Path, *paths: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of every version of these files."""
    command = ["git", "-C", str(clone), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for path, name in sorted(set(versions(clone, *paths))):
            reader.stdin.write(f"{name}\n".encode())
            reader.stdin.flush()
            size = int(reader.stdout.readline().split()[2])
            yield path, reader.stdout.read(size + 1)[:-1].decode(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("recipes", type=Path)
    arguments = parser.parse_args()
    files: dict[str, set[str]] = {}
    programs: set[str] = set()
    parts: set[str] = set()
    texts: set[str] = set()
    keys: set[str] = set()
    warnings.simplefilter("ignore", SyntaxWarning)
    for path, text in _list_upstream(arguments.clone, arguments.recipes):
        if not path.endswith(".py"):
            parts.add(fingerprint_text(text))
            keys.update(KEY.findall(text) if CONFIG in path else ())
            continue
        try:
            tree = readers.parse_python(text)
        except SyntaxError:
            continue
        if path.startswith(PARTS):
            parts.update(
                fingerprint_statement(node) for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))
            )
            texts.update(_texts(text) if path.startswith("verl/") else ())
        if path not in PROGRAMS and any(fnmatch(path, pattern) for pattern in WATCHED):
            files.setdefault(path, set()).add(fingerprint(tree))
        if path in PROGRAMS and (manager := find_program_managers(tree)) is not None:
            programs.add(fingerprint(manager))
    found = {"files": files, "programs": programs, "parts": parts, "texts": texts, "keys": keys}
    HISTORY.write_bytes(
        gzip.compress(json.dumps(found, default=sorted, sort_keys=True, separators=(",", ":")).encode(), mtime=0)
    )
    print(f"{sum(map(len, files.values()))} versions of {len(files)} files, {len(programs)} of managers")
    print(f"{len(parts)} parts of files, {len(texts)} with their comments")


def _texts(text: str) -> Iterator[str]:
    """Yield the fingerprints of a module's statements with their comments; none where it cannot be taken apart."""
    try:
        pieces = split_python(text)
    except Unsupported:
        return
    for piece in pieces:
        with suppress(SyntaxError, tokenize.TokenError):
            yield fingerprint_with_comments(piece.core)


if __name__ == "__main__":
    main()
