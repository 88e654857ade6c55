"""Every key of launches as Hydra composes them, against the projects that they become.

`python -m benchmarks.against_hydra CHECKOUT...`: bash runs each script with stand-ins for what it starts
(`under_bash`), Hydra composes what it passes with the checkout's own config tree (`under_hydra`), and each key of that
is looked for in the config of the project that `vextract new --from-verl-run` makes. A key is

- equal: the project has it, perhaps under the name that it has in the project's release, with the same value, or
  follows the same keys;
- reported: from_run.md says what became of it, and the value that the run has;
- the release's: nothing in the project has such a setting, and the value is the default of the project's release, or
  follows what it follows there;
- gone: neither the project nor its release has such a key, and the run leaves it at its default;
- silent: none of these. Each is printed.
"""

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import under_bash, under_hydra
from benchmarks.launch_scripts import project_of, remember, scripts_of
from extractor.importers.config.keys import READ_BY_THE_ENGINE, list_candidates
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.runs import imported_project, launch_reader
from extractor.importers.runs.report import Remark
from extractor.usecases import new
from extractor.usecases.changes.config_keys import select_config
from extractor.values import releases
from extractor.values.configtree import compose, flatten
from extractor.values.errors import VextractError
from extractor.values.options import Options
from extractor.values.renamed_config_keys import KeyRenames

_KEY = re.compile(r"\b(?!oc\.)[A-Za-z_]\w*(?:\.\w+)+")
_NOTHING = object()
_MEANT = re.compile(r"([\w.]+)=(\S+)")
EQUAL, REPORTED, THE_RELEASES, GONE, SILENT = "equal", "reported", "the release's", "gone", "silent"


@dataclass(frozen=True)
class Difference:
    """Holds a key that a project has otherwise than its run, without a word.

    Attributes:
        key, value: The run's.
        ours: The project's key and value; "": it has none.
    """

    key: str
    value: Any
    ours: str


@dataclass(frozen=True)
class Compared:
    """Holds what became of a script's keys, or why they could not be compared."""

    script: str
    counts: Counter[str]
    silent: tuple[Difference, ...] = ()
    why: str = ""
    forced: tuple[str, ...] = ()


def compared(
    script: Path, root: Path, tree: Path, verls: Mapping[str, Any], release: str, keep_unknown: bool
) -> Compared:
    """Compare a script's keys with its project's.

    Args:
        script: The launch script.
        root: Its checkout.
        tree: The checkout's configs, of `under_hydra.configs_of`.
        verls: verl's own config there, as it is written; empty: it has none.
        release: The project's.
        keep_unknown: As the flag of `vextract new`.
    """
    name = str(script.relative_to(root))
    try:
        options = Options("proj", release, "vllm", "grpo", (), "toy")
        made, given = project_of(script, options, keep_unknown, frozenset())
        variables = dict(item.split("=", 1) for item in given)
        for goes_on in (False, True):
            started = under_bash.run(script, root, variables, exports=bool(given), goes_on=goes_on)
            if any(launch_reader.find_program(item.words) for item in started):
                break
        if (known := _as_bash_has(variables, started)) != given:
            made, _ = project_of(script, options, keep_unknown, frozenset(), known)
    except VextractError as error:
        return Compared(name, Counter(), why=f"refused: {error.message}")
    launches = [(item, found) for item in started if (found := launch_reader.find_program(item.words)) is not None]
    if not launches:
        return Compared(name, Counter(), why="bash starts no trainer")
    command, (module, arguments) = launches[0]
    place = launch_reader.find_program_file(module)
    # It may be meant to be started from its own folder, or from one between that and the root.
    above = (folder for folder in script.parents if folder.is_relative_to(root))
    folders = (Path(command.environment.get("PWD", root)), *above)
    inside = (folder for folder in folders if (folder / place).resolve().is_relative_to(root))
    started_in = next((folder for folder in inside if (folder / place).is_file()), None)
    program = None if started_in is None else started_in / place
    theirs = under_hydra.composed(tree, program, arguments, command.environment, root, started_in)
    if theirs.refused:
        return Compared(name, Counter(), why=f"Hydra refuses it: {theirs.refused}", forced=theirs.forced)
    said = {item.lstrip("+~").partition("=")[0] for item in arguments}
    if verls:  # and what a config of the run's own has otherwise
        said |= {key for key, value in theirs.written.items() if verls.get(key, _NOTHING) != value}
    counts, silent = judged(theirs, made, said, root)
    return Compared(name, counts, tuple(silent), f"no {place} here" if program is None else "", theirs.forced)


def _as_bash_has(variables: Mapping[str, str], started: Sequence[under_bash.Started]) -> tuple[str, ...]:
    """Return the variables that were asked for with the values that bash has of them in the end.

    A script may ask whether there is a directory, and set another one if not.
    """
    launch = next((item for item in started if launch_reader.find_program(item.words) is not None), None)
    found = {} if launch is None else launch.environment
    return tuple(f"{name}={found.get(name, value)}" for name, value in variables.items())


def judged(
    run: under_hydra.Composition, made: new.NewProject, said: Collection[str], root: Path
) -> tuple[Counter[str], list[Difference]]:
    """Say what became of each key.

    Args:
        run: As Hydra composes it.
        made: The project.
        said: The keys that the run's command line sets.
        root: What its paths may be relative to.
    """
    assert made.run is not None
    theirs, ours = run.config, imported_project.load_config(made.tree)
    defaults = VerlDefaults.of(ReleaseConfig.of(made.generated.source))
    written = flatten(defaults.config)
    here = flatten(compose(select_config(made.tree), "ppo_trainer.yaml").config)
    there, back = _renames(made)
    names = {key: _names(key, theirs, back) for key in ours}
    places: dict[str, list[str]] = {}
    for key, known in names.items():
        for name in known:
            places.setdefault(name, []).append(key)
    # Names of other versions of verl, which the report names with what they are in the run's release.
    as_named = {item.text.lstrip("+").partition("=")[0]: item.key for item in made.run.run.overrides}
    told: dict[str, list[Remark]] = {}
    for remark in made.run.remarks:
        told.setdefault(remark.key, []).append(remark)
    # What a report says that something else is here: `n_agent=5: here it is actor_rollout_ref.rollout.n=5`.
    meant = {said for item in made.run.remarks for said in _MEANT.findall(item.why.partition("here it is")[2])}
    counts: Counter[str] = Counter()
    silent = []
    for key, value in theirs.items():
        if key.startswith("hydra.") or key.rpartition(".")[2] == "_target_":
            continue
        others = list_candidates(as_named.get(key, key), there)
        own = list(dict.fromkeys([*places.get(key, ()), *(name for name in others if name in ours)]))
        # A section may follow another one as a whole.
        sections = (key[: found.start()] for found in re.finditer(r"\.", key))
        named = dict.fromkeys((key, as_named.get(key, key), *own, *others, *sections))
        about = [remark for name in named for remark in told.get(name, ())]
        mine = run.written[key]
        if any(same(value, ours[name], root) or _follow_the_same(mine, here.get(name)) for name in own):
            what = EQUAL
        elif any(_says(remark, value, theirs, root) for remark in about) or any(
            (name, str(ours[name])) in meant for name in own
        ):
            what = REPORTED
        elif own and any(_other_counts(name, key, names[name], theirs, ours, root, said) for name in own):
            what = "another name's"
        elif not own and any(
            same(value, defaults.flat[name], root)
            or _follow_the_same(mine, written[name])
            or any(same(value, theirs.get(key, _NOTHING), root) for key in _followed(written[name]))
            for name in others
            if name in defaults.flat
        ):
            what = THE_RELEASES
        elif not own and key not in said and not any(name in defaults.flat for name in others):
            what = GONE
        else:
            what = SILENT
            shown = ", ".join(f"{name}={ours[name]!r}" for name in own)
            shown += "".join(f" [{item.what}: {item.value!r}]" for item in about)
            silent.append(Difference(key, value, shown))
        counts[what] += 1
    return counts, silent


def _renames(made: new.NewProject) -> tuple[KeyRenames, KeyRenames]:
    assert made.run is not None
    run, project = made.run.release, made.generated.options.verl
    return KeyRenames(run, project), KeyRenames(project, run)


def _names(key: str, theirs: Mapping[str, Any], back: KeyRenames) -> list[str]:
    names = (READ_BY_THE_ENGINE.get(key), *list_candidates(key, back))
    return [name for name in dict.fromkeys(names) if name is not None and name in theirs]


def _other_counts(
    own: str,
    key: str,
    names: list[str],
    theirs: Mapping[str, Any],
    ours: Mapping[str, Any],
    root: Path,
    said: Collection[str],
) -> bool:
    """Tell whether the project has what the run says under another of a key's names, and this one is a default."""
    return key not in said and any(same(theirs[name], ours[own], root) for name in names if name != key)


def _says(remark: Remark, value: Any, theirs: Mapping[str, Any], root: Path) -> bool:
    """Tell whether a remark is about this value, of this key or of the other name that the run says; or unknown."""
    if isinstance(remark.value, str) and "$" in remark.value:
        return True
    return same(remark.value, value, root) or same(remark.value, theirs.get(remark.key), root)


def same(theirs: Any, ours: Any, root: Path) -> bool:
    """Tell whether two values mean the same: 1 and 1.0 do, 1 and True do not, nor do 1 and "1"."""
    if isinstance(ours, list) and isinstance(theirs, str):
        theirs = [theirs]  # a logger, a file
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        return len(theirs) == len(ours) and all(same(*pair, root) for pair in zip(theirs, ours, strict=True))
    if isinstance(theirs, str) and isinstance(ours, str):
        return theirs == ours or _at(theirs, root) == _at(ours, root)
    if isinstance(theirs, bool) or isinstance(ours, bool):
        return theirs is ours
    if theirs == "???" and ours is None:
        return True
    return bool(theirs == ours)


def _follow_the_same(theirs: Any, ours: Any) -> bool:
    """Tell whether two values, as they are written, name the same keys: `${a.b}` and `${oc.select:a.b,1}` do."""
    return bool(_followed(theirs)) and _followed(theirs) == _followed(ours)


def _followed(value: Any) -> set[str]:
    """Return the keys that a value follows, as it is written."""
    return set(_KEY.findall(value)) if isinstance(value, str) and "${" in value else set()


def _at(text: str, root: Path) -> Path:
    return root / Path(text).expanduser() if "/" in text or "." in text else Path(text)


def all_compared(
    roots: list[Path], scripts: Iterator[tuple[Path, list[Path]]], release: str, keep_unknown: bool
) -> Iterator[tuple[Path, Compared]]:
    """Compare the scripts of checkouts."""
    with tempfile.TemporaryDirectory() as folder:
        for root, found in scripts:
            files = {path.relative_to(root).as_posix(): path for path in root.rglob("*.yaml")}
            texts = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in files.items()}
            tree = under_hydra.configs_of(texts, Path(folder, "tree"))
            verls = under_hydra.composed(tree, None, (), {}, root).written
            for script in found:
                try:
                    yield root, compared(script, root, tree, verls, release, keep_unknown)
                except Exception as error:
                    yield root, Compared(str(script.relative_to(root)), Counter(), why=f"bug: {error!r}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--verl", default=releases.find_default(), help="release of the projects")
    parser.add_argument("--take", type=int, default=0, help="at most so many scripts of each checkout; 0: all")
    parser.add_argument("--per-folder", type=int, default=0, help="at most so many of folders of the same path; 0: all")
    parser.add_argument("--only", default="", help="regular expression of paths")
    parser.add_argument("--keep-unknown", action="store_true", help="as the flag of `vextract new`")
    options = parser.parse_args()
    os.environ.setdefault("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    os.environ.update(HOME=under_bash.HOME, USER="nobody")
    remember()
    total: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    scripts = scripts_of([path.resolve() for path in options.checkouts], options.only, options.take, options.per_folder)
    for root, item in all_compared([], scripts, options.verl, options.keep_unknown):
        why = " ".join(item.why.split())[:300]
        print(f"{root.name}/{item.script}: {dict(item.counts)} {why} {' '.join(item.forced)[:300]}", flush=True)
        for difference in item.silent:
            print(f"    {difference.key}={difference.value!r}  here {difference.ours or 'nothing'}", flush=True)
            kinds[difference.key] += 1
        total += item.counts
        total["scripts"] += bool(item.counts)
        total["not compared"] += not item.counts
    print("\nsilent, by key:")
    for key, count in kinds.most_common():
        print(f"{count:6}  {key}")
    print(f"all: {dict(total)}")
    return 0 if not total[SILENT] else 1


if __name__ == "__main__":
    sys.exit(main())
