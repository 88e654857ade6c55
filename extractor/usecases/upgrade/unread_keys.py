"""Find settings that only parked code reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from extractor.pipeline.plan import Plan
from extractor.pipeline.render.unread import named
from extractor.project.lock import Lock
from extractor.project.side_files import ORPHANED
from extractor.usecases.changes.changeset import OwnerKey
from extractor.usecases.changes.config_keys import MAIN, below_config, read_config
from extractor.usecases.explain.ours import own_files
from extractor.values import readers
from extractor.values.config_files import FOLDER, is_config
from extractor.values.configtree.settings import every_setting
from extractor.values.tree import Tree


def no_longer_read(project: Path, old: Lock, base: Mapping[str, bytes], new: Tree, plan: Plan) -> tuple[OwnerKey, ...]:
    """Return the owner's settings that only parked code reads.

    Args:
        project: Its directory.
        old: Its lock.
        base: What was emitted, by path.
        new: What is emitted now.
        plan: What becomes of each file.
    """
    emitted = (base, {file.path: file.data for file in new})
    configs = [below_config({path: side[path].decode() for path in side if is_config(path)}) for side in emitted]
    known = {item.key for side in configs for item in every_setting(side, MAIN)}
    everything = below_config(read_config(project / FOLDER)) if (project / FOLDER).is_dir() else {}
    own = [item for item in every_setting(everything, MAIN) if not item.section and item.key not in known]
    if not own:
        return ()
    paths = {file.path for file in old.files} | set(own_files(project, old))
    before = {path: readers.read_text(project / path) for path in paths if _is_code(project, path)}
    writes = {path: data.decode(errors="replace") for path, data in plan.writes().items() if path.endswith(".py")}
    parked = {path for path in writes if path.startswith(f"{ORPHANED}/")}
    after = {path: text for path, text in {**before, **writes}.items() if path not in {*plan.removals(), *parked}}
    keys = [item.key for item in own]
    gone = named(keys, before.values()) - named(keys, after.values())
    places = {(f"{FOLDER}{item.file}", item.line, item.key) for item in own if item.key in gone}
    return tuple(OwnerKey(*place, None, unread=True) for place in sorted(places))


def _is_code(project: Path, path: str) -> bool:
    return path.endswith(".py") and not path.startswith("tests/") and (project / path).is_file()
