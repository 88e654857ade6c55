"""What functions give by which programs put a config of verl's together: Hydra's, OmegaConf's and Ray's.

What such a config starts from is verl's own, which is not here: it has whatever is looked for in it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from extractor.importers.runs.python import files, library
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.states import State, text_of
from extractor.importers.runs.python.syntax import is_one_of
from extractor.importers.runs.python.values import DEEPEST, Computed, Items, Listed, Own, OwnClass, Ref
from extractor.importers.runs.unknowns import readable, unknowns
from extractor.values import readers
from extractor.values.configtree import BadOverride, parse_override

# How a config says that Hydra makes it for the program, as for a command that runs it.
BY_HYDRA = "@hydra.main"
_MAKER = "OmegaConf.create"
_OF_VERL = "verl"
# An override of a setting, and of no whole section, which a file of Hydra's may be chosen for.
_SETTING = re.compile(r"\+{0,2}\w+\.[\w.]+=")
_INITIALIZES = ("initialize", "initialize_config_dir", "initialize_config_module")


def called(name: str, given: Sequence[Any], named: Items, run: Run) -> Any:
    """Return what a function gives; `library.NOT_HERE`: it is none of these."""
    owner, _, last = name.rpartition(".")
    if owner.rpartition(".")[2] == "ray" and last in ("get", "remote", "put") and given:
        return given[0] if last != "remote" or isinstance(given[0], (Own, OwnClass)) else library.NOT_HERE
    if name.startswith("verl.") and given and is_config(given[0], run.state):
        return library.NOT_HERE if is_one_of(last, run.noted) else given[0]  # what verl has made of its config
    if last in _INITIALIZES:
        run.config_folder = _said(given, named, "config_path", "config_dir", "config_module")
        return None
    if last == "compose":
        return _composed(given, named, run)
    if owner.rpartition(".")[2] != "OmegaConf":
        return library.NOT_HERE
    if last == "load" and given:
        return _loaded(given[0], run)
    if last == "merge" and given:
        return _merged(given, run)
    if last == "update" and len(given) > 1 and isinstance(given[1], str) and not isinstance(given[1], Computed):
        return _updated(given, named, run)
    if last in ("from_cli", "from_dotlist"):
        return _of_words(given, run)
    return library.NOT_HERE


def by_hydra(function: ast.AST, run: Run) -> Any:
    """Return the config that Hydra makes for a function, `@hydra.main(...)`; None: it makes none."""
    for item in getattr(function, "decorator_list", ()):
        if ast.unparse(item.func if isinstance(item, ast.Call) else item) in ("hydra.main", "main"):
            config = opened(run, (BY_HYDRA,))
            library.merged_into(run.items_of(config), run.items_of(of_command(run)), run)
            return config
    return None


def of_command(run: Run) -> Any:
    """Return what the command sets of the config that Hydra makes for a program."""
    words = [word for word in run.words or () if _SETTING.match(word)]
    return _of_words([run.new(Listed(words))], run)


def opened(run: Run, origin: Sequence[str] = ()) -> Ref:
    """Return a config that is not here."""
    return run.new(Items(maker=_MAKER, is_open=True, is_whole=False, origin=tuple(origin)))


def _said(given: Sequence[Any], named: Items, *names: str) -> Any:
    values = [*given[:1], *(named.items[name] for name in names if name in named.items)]
    return values[0] if values and isinstance(values[0], str) and not isinstance(values[0], Computed) else None


def _composed(given: Sequence[Any], named: Items, run: Run) -> Any:
    name = _said(given, named, "config_name")
    origin = [f"--config-name={name}"] if name else []
    if name and run.config_folder:
        origin.append(f"--config-path={run.config_folder}")
    base = opened(run, origin)
    words = named.items.get("overrides", given[1] if len(given) > 1 else None)
    return base if words is None else _merged([base, _of_words([words], run)], run)


def _loaded(path: Any, run: Run) -> Any:
    """Return what a config file has; verl's own, and one that is not here, are left to what composes configs."""
    is_known = isinstance(path, str) and not isinstance(path, Computed)
    try:
        if is_known and _OF_VERL in PurePosixPath(path).parts:
            raise ValueError(path)
        found = files.config_in(path, run.places)
    except ValueError:
        name = PurePosixPath(path).stem if is_known else ""
        if not name:
            run.unnamed.append(text_of(path, run.state))
        return opened(run, [f"--config-name={name}"] if name else [])
    run.files.add(str(path))
    return run.entered(found, _MAKER)


def _merged(given: Sequence[Any], run: Run) -> Any:
    """Return configs as one; the first may be any that is not known, which is verl's then."""
    base, *others = given
    if not isinstance(run.state.of(base), Items):
        base = opened(run)
    known = [item for item in others if isinstance(run.state.of(item), Items)]
    made = library.merged([base, *known], run)
    run.items_of(made).unread += tuple(text_of(item, run.state) for item in others if item not in known)
    return made


def _updated(given: Sequence[Any], named: Items, run: Run) -> Any:
    config = run.state.of(given[0])
    if not isinstance(config, Items):
        return library.NOT_HERE
    value = given[2] if len(given) > 2 else named.items.get("value")
    library.merged_into(config, run.items_of(_nested(given[1], value, run)), run)
    return None


def _nested(key: str, value: Any, run: Run) -> Ref:
    """Return a config with one setting."""
    *sections, last = key.split(".")
    if len(sections) > DEEPEST:
        raise ValueError("too deep")
    made = run.new(Items({last: value}, maker=_MAKER))
    for name in reversed(sections):
        made = run.new(Items({name: made}, maker=_MAKER))
    return made


def _of_words(given: Sequence[Any], run: Run) -> Any:
    """Return the config that overrides make, those of the command where none are given."""
    words = run.iterated(given[0]) if given else [word for word in run.words or () if "=" in word]
    config = Items(maker=_MAKER)
    if words is None:
        config.unread = (text_of(given[0], run.state),)
    for word in words or ():
        key, value = _setting(word, run)
        if key:
            library.merged_into(config, run.items_of(_nested(key.lstrip("+~"), value, run)), run)
        else:
            config.unread += (text_of(word, run.state),)
    return run.new(config)


def _setting(word: Any, run: Run) -> tuple[str, Any]:
    """Return the key and the value of an override, of which only the program may know a part; "": not even the key."""
    if isinstance(word, Computed):
        node = readers.expression(word)
        first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else None
        said = str(first.value) if isinstance(first, ast.Constant) else ""
        return (said.partition("=")[0] if "=" in said else ""), word
    if not isinstance(word, str):
        return "", word
    key, equals, text = word.partition("=")
    if unknowns(word):
        return (key if equals else ""), Computed(readable(text))
    try:
        value = parse_override(word).value
    except BadOverride:
        value = text
    return (key if equals else ""), run.entered(value)


def is_config(value: Any, state: State) -> bool:
    """Tell whether a value is a config of verl's, or is made of one."""
    found = state.of(value)
    return isinstance(found, Items) and (found.is_open or "actor_rollout_ref" in found.items)
