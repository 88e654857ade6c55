"""Give a project the config keys that the fork's code reads."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.adopt.findings import Copy
from extractor.importers.adopt.locate import read_files
from extractor.importers.python_text.definitions import read_config_defaults
from extractor.importers.python_text.segments import decode
from extractor.pipeline.render.unread import collect_values, find_named, find_unread_settings
from extractor.pipeline.source import Source
from extractor.usecases.upgrade.settings import carry
from extractor.values import readers
from extractor.values.config_files import is_config
from extractor.values.configtree import compose, flatten
from extractor.values.configtree.written import dump_yaml, nest
from extractor.values.fingerprint import load_upstream_key_names
from extractor.values.tree import File

FILE = "config/fork/keys.yaml"
_FOLDER, _MAIN = "verl/trainer/config/", "ppo_trainer.yaml"
_HEAD = "# @package _global_\n# Settings that the fork has added to verl's, for its own code.\n"
_SELF = "  - _self_\n"
_LINE = f"  # Settings that came with the fork: {FILE.removeprefix('config/')}.\n  - fork@_global_: keys\n{_SELF}"


def add_own_keys(copy: Copy, source: Source, tree: Mapping[str, File], code: Sequence[str]) -> dict[str, bytes]:
    """Return config files that add the fork's settings carried code reads."""
    theirs, known = _compose_forks(copy), compose_settings(source.files, _FOLDER)
    have = compose_settings({path: file.data for path, file in tree.items()}, "config/")
    without = {key.partition(".")[0] for key in known} - {key.partition(".")[0] for key in have}
    added = {
        key: value
        for key, value in sorted(theirs.items())
        if key not in known
        and value != {}
        and key.partition(".")[0] not in without
        and all(map(str.isidentifier, key.split(".")))
        and not _is_taken(key, have)
    }
    new = select_read(added, code)
    new |= find_asked_by_hooks(copy.top, {**have, **new}, code)
    # A value that follows a setting, `${data.seed}`, needs that one.
    while lost := [
        key for key, value in new.items() if not set(re.findall(r"\$\{([^{}]*)", str(value))) <= {*have, *new}
    ]:
        new = {key: value for key, value in new.items() if key not in lost}
    main = tree[f"config/{_MAIN}"].data.decode()
    if not new or main.count(_SELF) != 1:
        return {}
    lines = main.replace(_SELF, _LINE)
    return {FILE: (_HEAD + dump_yaml(nest(new))).encode(), f"config/{_MAIN}": lines.encode()}


def carry_defaults(copy: Copy, sources: Sequence[Source], files: Mapping[str, bytes], package: str) -> dict[str, bytes]:
    """Return the project's config files with defaults that the fork changed.

    Args:
        copy: The fork.
        sources: The release, and others: what one of these has for a default is no change of the fork's.
        files: The project's, by path.
        package: The project's: what none of its code reads stays as it is.
    """
    texts = {path: decode(data) or "" for path, data in files.items() if path.endswith((".py", ".yaml"))}
    unread = find_unread_settings(texts, collect_values(texts), package)
    theirs, have = _compose_forks(copy), compose_settings(files, "config/")
    known = [compose_settings(source.files, _FOLDER) for source in sources]
    changed = {
        key: value
        for key, value in theirs.items()
        if key in have
        and key not in unread
        and key in known[0]
        and "${" not in str(value)
        and have[key] == known[0][key]
        and all(value != side.get(key) for side in known)
    }
    before, after = (dump_yaml(nest({key: side[key] for key in changed})).encode() for side in (known[0], changed))
    config = {path: data for path, data in files.items() if is_config(path)}
    main = f"config/{_MAIN}"
    return dict(carry({main: before}, {main: after}, config, lambda key: None, set(config)).theirs) if changed else {}


def _compose_forks(copy: Copy) -> Mapping[str, Any]:
    """Return the settings of a fork's trainer, flat."""
    folder = copy.root / "trainer/config"
    inside = readers.list_files_below(folder)
    texts = {f"{_FOLDER}{path.relative_to(folder).as_posix()}": path.read_bytes() for path in inside}
    return compose_settings(texts, _FOLDER)


def select_read(new: Mapping[str, Any], code: Iterable[str]) -> dict[str, Any]:
    """Return the fork's settings that code reads by name."""
    texts = list(code)
    read, words = find_named(new, texts), {word for text in texts for word in re.findall(r"\w+", text)}
    words |= load_upstream_key_names()
    whole = "\n".join(texts)  # as a project's own check wants it: a parameter of that name is no use
    used = {key for key in read if re.search(rf"""\.{(last := key.rpartition(".")[2])}\b|["']{last}["']""", whole)}
    return {key: value for key, value in new.items() if key in used and words.issuperset(key.split("."))}


def find_asked_by_hooks(top: Path, have: Mapping[str, Any], code: Iterable[str]) -> dict[str, Any]:
    """Return settings that hooks read and the project lacks, with values."""
    texts = list(code)
    keys = {key for text in texts for key in re.findall(r"\bnow\.config\.([\w.]+)(?![\w.(])", text)}
    prepares = re.compile(r"(?ms)^def prepare_(?:advantages|update)_.*?(?=^[^\s)]|\Z)")
    of_loops = [item for text in texts for item in prepares.findall(text)]
    keys |= {key for text in of_loops for key in re.findall(r"(?<![.\w])(?:self\.)?config\.([\w.]+)(?![\w.(])", text)}
    loss = re.compile(r"(?ms)^def (?:loss_of_|compute_loss_of_the_actor).*?(?=^[^\s)]|\Z)")
    losses = [item for text in texts for item in loss.findall(text)]
    reads = r"(?<![.\w])config\.([\w.]+)(?![\w.(])"
    of_actor = {key for text in losses for key in re.findall(reads, text) if f"config, '{key}')" not in text}
    keys |= {f"actor_rollout_ref.actor.{key}" for key in of_actor}
    lacking = {key for key in keys if key not in have and not any(name.startswith(f"{key}.") for name in have)}
    found: dict[str, Any] = {}
    likely: dict[str, Any] = {}  # from sections called otherwise, and from classes
    for name, data in read_files(top) if lacking else ():
        values = read_config_defaults(decode(data) or "") if name.endswith(".py") else {}
        if name.endswith((".yaml", ".yml")):
            try:
                body = yaml.safe_load(decode(data) or "")
            except yaml.YAMLError:
                continue
            values = flatten(body) if isinstance(body, dict) else {}
        inside = {name: values[name] for name in values if any(name.startswith(f"{key}.") for key in lacking)}
        found = {**{key: values[key] for key in lacking if key in values}, **select_read(inside, texts), **found}
        likely = {key: values[name] for name in values for key in lacking if _name_end(name) == _name_end(key)} | likely
    asked = {key for text in of_loops for key in re.findall(r"\bself\.config\.([\w.]+)\.get\(", text)}
    sections: dict[str, Any] = {key: {} for key in asked if not any(f"{name}.".startswith(f"{key}.") for name in have)}
    found = {**dict.fromkeys(sorted(lacking)), **likely, **found, **sections}
    return {key: value for key, value in found.items() if not any(name.startswith(f"{key}.") for name in found)}


def _name_end(key: str) -> str:
    """Return a key's section and name, the section as a class of it is called."""
    section, _, name = key.rpartition(".")
    return f"{section.rpartition('.')[2].replace('_', '')}.{name}"


def read_own_keys(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the settings that a fork has added, flat."""
    return flatten(yaml.safe_load(decode(files[FILE]) or "") or {}) if FILE in files else {}


def compose_settings(files: Mapping[str, bytes], folder: str) -> Mapping[str, Any]:
    """Return a config directory's flat settings; empty if they don't compose."""
    paths = [path for path in files if path.startswith(folder) and path.endswith(".yaml")]
    texts = {path.removeprefix(folder): decode(files[path]) or "" for path in paths}
    try:
        return flatten(compose(texts, _MAIN).config) if _MAIN in texts else {}
    except yaml.YAMLError:
        return {}


def _is_taken(key: str, have: Mapping[str, Any]) -> bool:
    """Tell whether adding a key would clash with a config's keys."""
    return any(
        (value is not None and f"{key}.".startswith(f"{name}.")) or name.startswith(f"{key}.")
        for name, value in have.items()
    )
