"""Projects of launch scripts of every release, exported, as Hydra composes them.

`python -m benchmarks.exported CHECKOUT...`: each script becomes a project of each release of verl, and that an
export. bash runs its `run.sh` with stand-ins for what it starts (`under_bash`), Hydra composes what that passes with
the release's own config tree (`under_hydra`), and each key of the project is looked for in it. A key is

- equal: verl has the project's value, perhaps under another name;
- in KEYS.md: dropped, and said so there, or changed to the value that stands there;
- silent: none of these. Each is printed, and so is what Hydra refuses.
"""

import argparse
import functools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import under_bash, under_hydra
from benchmarks.against_hydra import EQUAL, SILENT, Difference, same
from benchmarks.launch_scripts import project_of, remember, scripts_of
from extractor.importers import export
from extractor.importers.config.keys import READ_BY_THE_ENGINE, list_candidates
from extractor.importers.config.project import load, read_files
from extractor.importers.export import Key, KeyStatus
from extractor.importers.runs import launch_reader
from extractor.pipeline.plan import plan_new
from extractor.pipeline.source import Source, open_source
from extractor.project import lock
from extractor.usecases import new
from extractor.values import releases
from extractor.values.errors import VextractError
from extractor.values.options import Options

IN_THE_TABLE = "in KEYS.md"


@functools.cache
def _opened(release: str) -> Source:
    return open_source(releases.load(release).pin)


def judged(project: Path, tree: Path, out: Path) -> tuple[Counter[str], list[Difference], str]:
    """Export a project, and compare what Hydra makes of it with the project's config.

    Args:
        project: Its directory.
        tree: Of `under_hydra.configs_of`, of the project's release.
        out: Where the export goes; not there yet.

    Returns:
        How many keys are what, the silent ones, and what Hydra refuses ("": nothing).
    """
    locked = lock.read(project)
    made = export.export(project, locked, _opened(locked.options.verl))
    export.write(out, made.files)
    started = under_bash.run(out / "run.sh", out, {})
    launches = [(item, found) for item in started if (found := launch_reader.find_program(item.words)) is not None]
    if not launches:
        return Counter(), [], "bash starts no trainer"
    (command, (_, arguments)) = launches[0]
    theirs = under_hydra.composed(tree, None, arguments, command.environment, out)
    refused = theirs.refused or " ".join(theirs.forced)
    if theirs.refused:
        return Counter(), [], refused
    told = {key.key for key in made.keys if key.status is KeyStatus.DROPPED or _is_changed(key, theirs.config, out)}
    counts: Counter[str] = Counter()
    silent = []
    for key, value in load(read_files(project)).flat.items():
        names = [
            name
            for name in dict.fromkeys((READ_BY_THE_ENGINE.get(key, key), *list_candidates(key, lambda name: None)))
            if name in theirs.config
        ]
        # An empty section says nothing, and the release may have defaults below it.
        says_nothing = value == {} and any(name.startswith(f"{key}.") for name in theirs.config)
        if says_nothing or any(same(theirs.config[name], value, out) for name in names):
            what = EQUAL
        elif key in told:
            what = IN_THE_TABLE
        else:
            what = SILENT
            silent.append(Difference(key, value, ", ".join(f"{name}={theirs.config[name]!r}" for name in names)))
        counts[what] += 1
    return counts, silent, refused


def _is_changed(key: Key, theirs: Mapping[str, Any], out: Path) -> bool:
    """Tell whether verl has the value that KEYS.md says it has in place of the project's."""
    if key.status is not KeyStatus.CHANGED or key.target is None:
        return False
    value = key.target_value
    value = value.replace("$HERE", str(out)) if isinstance(value, str) else value
    return same(theirs.get(key.target), value, out)


def projects(
    scripts: Iterator[tuple[Path, list[Path]]], release: str, keep_unknown: bool, folder: Path
) -> Iterator[tuple[str, Path]]:
    """Make the projects of scripts; yield each one's name and directory."""
    for root, found in scripts:
        for number, script in enumerate(found):
            target = folder / f"{root.name}-{number}" / "proj"
            name = f"{root.name}/{script.relative_to(root)}"
            try:
                made, _ = project_of(
                    script, Options("proj", release, "vllm", "grpo", (), "toy"), keep_unknown, frozenset()
                )
                new.write(target, plan_new(made.tree), made.generated)
            except VextractError as error:
                print(f"{name}: no project: {' '.join(error.message.split())[:200]}", flush=True)
                continue
            yield name, target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--take", type=int, default=0, help="at most so many scripts of each checkout; 0: all")
    parser.add_argument("--per-folder", type=int, default=0, help="at most so many of folders of the same path; 0: all")
    parser.add_argument("--only", default="", help="regular expression of paths")
    parser.add_argument("--keep-unknown", action="store_true", help="as the flag of `vextract new`")
    options = parser.parse_args()
    os.environ.setdefault("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    os.environ.update(HOME=under_bash.HOME, USER="nobody")
    remember()
    total: dict[str, Counter[str]] = {release: Counter() for release in releases.list_supported()}
    kinds: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder, trees = Path(temporary), {}
        for release in releases.list_supported():
            source = _opened(release)
            texts = {path: source.read(path) for path in source.files if path.endswith(".yaml")}
            trees[release] = under_hydra.configs_of(texts, folder / "trees" / release)
        roots = [path.resolve() for path in options.checkouts]
        for release, tree in trees.items():
            scripts = scripts_of(roots, options.only, options.take, options.per_folder)
            for name, project in projects(scripts, release, options.keep_unknown, folder / release):
                try:
                    counts, silent, refused = judged(project, tree, project.parent / "export")
                except Exception as error:  # also what no one foresaw is a row
                    counts, silent, refused = Counter(), [], f"no export: {error!r}"
                total[release] += counts + Counter({"accepted": not refused, "refused": bool(refused)})
                if silent or refused:
                    print(f"{name} to {release}: {' '.join(refused.split())[:300]}", flush=True)
                for item in silent:
                    print(f"    {item.key}={item.value!r}  there {item.ours or 'nothing'}", flush=True)
                    kinds[release, item.key] += 1
    names = ("accepted", "refused", EQUAL, IN_THE_TABLE, SILENT)
    print("\n| release | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for release, counts in total.items():
        print(f"| {release} | " + " | ".join(f"{counts[name]:,}" for name in names) + " |")
    for (release, key), count in kinds.most_common():
        print(f"{count:6}  {release}  {key}")
    return 1 if any(counts[SILENT] or counts["refused"] for counts in total.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
