# vextract:template base/__package__/settings/loading.py - edit freely
"""From the files in config/ and the command line to one checked config.

The YAML is composed by Hydra, so `key=value`, `+new.key=value` and `preset=ppo` work as they do with verl. What differs
is what a mistake gets: an unknown key names the nearest known one, a value of the wrong type says which type is right.
"""

import contextlib
import copy
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf, ValueNode

from ..absent import PRESETS
from ..absent import SETTINGS as ABSENT
from ..errors import ConfigError
from ..output import main_command
from .batch_sizes import settle_passes
from .devices import settle_on
from .flags import MAIN, ConfigFiles
from .setting import known_of, switched_off
from .setting_checks import launch_answer, notes, problems
from .suggestions import ALIASES, FORMER_KEYS, choose, meant_setting, nearest, present_name

ENGINES = ("hf", "sglang", "vllm")
GROUPS = ("preset", "recipe", "scale", "critic_scale")
MODEL = "actor_rollout_ref.model.path"
NO_MODEL = re.compile(r"^  model:\n(?:    .*\n)*?    path: null\b", re.MULTILINE)  # as the main file comes
# Sections that hold what the owner's own code takes: what is new in them needs no +.
OPEN = tuple(f"{part}reward_kwargs" for part in ("reward.", "reward.custom_reward_function."))
OPEN += ("reward_model.reward_kwargs", "custom_reward_function.reward_kwargs", "data.env")


def load_config(where: Path | ConfigFiles, overrides: Sequence[str] = ()) -> DictConfig:
    """Compose the config with `overrides`, and check it.

    Args:
        where: the project's config directory, whose ppo_trainer.yaml is taken; or which files.
        overrides: `key=value`, `+key=value`, `~key` or `group=option`, as on the command line.

    Returns:
        The config; unknown keys raise from now on.

    Raises:
        ConfigError: an override is malformed, its key is unknown, or a value cannot be right.
    """
    files = where if isinstance(where, ConfigFiles) else ConfigFiles(where)
    files.check()
    given = list(overrides)
    from_file = _of_file(files)
    overrides = [*from_file, *given]
    chosen = [override for override in overrides if override.partition("=")[0] in GROUPS]
    for override in chosen:
        _check_choice(override, files)
    sizes = _sizes(files, overrides)
    default = _compose(files, [*sizes, *chosen])  # a preset may have settings that others lack
    if "actor_rollout_ref" not in default:
        raise ConfigError(
            f"{files.name}.yaml has no settings but its own", "begin it with defaults: [ppo_trainer, _self_]"
        )
    known = dict(flat_nodes(default))
    overrides = [word for word in overrides if word not in from_file or not _repeats(word, default)]
    overrides = [_opened(override, known) for override in overrides]
    for override in overrides:
        _check_override(override, known)
    values = [override for override in overrides if override not in chosen]
    config = _with_values(files, default, [*sizes, *chosen], values)
    if (right := _sizes(files, overrides, config)) != sizes:
        default = _compose(files, [*right, *chosen])
        config = _with_values(files, default, [*right, *chosen], values)
    _check_former_names(config)
    # The types are those of the project's own values, whatever a file of another name says.
    check_types(config, default if files.name == MAIN else _compose(ConfigFiles(files.directory), ()))
    for problem in problems(config, _set_by(given)):
        raise ConfigError(*problem)
    settle_passes(config, _set_by(overrides))
    return config


def _of_file(files: ConfigFiles) -> list[str]:
    """Return the settings of a file of values, as they stand on a command line."""
    from ..api.configuration import as_overrides

    return as_overrides(files.read_values())


def _repeats(word: str, default: DictConfig) -> bool:
    """Tell whether a setting is what it would be anyway: a config that a run has written down has all of them."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf.errors import OmegaConfBaseException

    one = OverridesParser.create().parse_override(word)
    with contextlib.suppress(OmegaConfBaseException):
        return bool(OmegaConf.select(default, one.key_or_group) == one.value())
    return False


def notes_on(config: DictConfig, overrides: Sequence[str]) -> list[str]:
    """Return what to say about settings, above all of the command line, that are in order and do not count."""
    return list(notes(config, _set_by(overrides)))


def _set_by(overrides: Sequence[str]) -> list[str]:
    return [override.partition("=")[0].lstrip("+") for override in overrides]


def settle_device(config: DictConfig) -> None:
    """Fill in `local.device` and what depends on it; and have the vendored code, which looks for one itself, agree."""
    if config.local.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks
    import torch

    if config.local.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("local.device is cuda, and torch finds no GPU", "leave local.device out to run on the CPU")
    settle_on(config, "cuda" if torch.cuda.is_available() else "cpu")
    if config.local.num_threads is not None:
        torch.set_num_threads(config.local.num_threads)
    if config.actor_rollout_ref.actor.fsdp_config.full_determinism:
        from ..workers.determinism import always_the_same

        always_the_same()
    # cuDNN's attention plans each shape that it has not seen: 50 ms for each token of a rollout, on an H100.
    torch.backends.cuda.enable_cudnn_sdp(False)


def flat_keys(config: DictConfig) -> Iterator[str]:
    """Return the dotted names of all settings, and of the sections that hold them."""
    yield from (name for name, _ in flat_nodes(config))


def flat_nodes(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return all settings, and the sections that hold them, by their dotted names."""
    for key in config:
        name, node = f"{prefix}{key}", config._get_node(key)
        yield name, node
        if isinstance(node, DictConfig) and not node._is_none() and not node._is_interpolation():
            yield from flat_nodes(node, f"{name}.")


def check_choice(name: str, value: Any) -> None:
    """Refuse a value of a setting that has only some values."""
    if not known_of(name).takes(value):
        raise ConfigError(f"{name} is {value!r}", _other_choice(name, value))


def check_types(config: DictConfig, default: DictConfig) -> None:
    """Compare the type of each setting with its default's, and its value with those that are allowed."""
    for name, value, usual in _side_by_side(config, default):
        check_choice(name, value)
        setting = known_of(name)
        expected = setting.null_or or _expected_type(usual)
        if not (expected is None or (value is None and setting.null_or) or _fits(value, expected)):
            better = f"[{value}]" if expected is list and isinstance(value, str) else _text(usual)
            raise ConfigError(f"{name} is {value!r}, which is not {_type_name(expected)}", _set(name, better))
        problem = setting.out_of_range(value)
        if problem is not None and not any(switched_off(config, [name])):
            raise ConfigError(f"{name} {problem}", setting.hint or _set(name, _text(usual)))


def _set(name: str, value: str) -> str:
    """Write the command that gives a setting a value; every default is one that is taken."""
    return main_command(f"{name}={value}")


def _text(value: Any) -> str:
    """Write a value of the config, or the setting that has it, as it is typed."""
    if isinstance(value, ValueNode):
        node = value._maybe_dereference_node()
        value = node._value() if isinstance(node, ValueNode) else node
    if isinstance(value, (DictConfig, ListConfig)):
        return json.dumps(OmegaConf.to_container(value), separators=(",", ":")).replace('"', "")
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _side_by_side(config: DictConfig | None, default: DictConfig, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Return all settings and sections of `default` by name, with the value in both configs; None: there is none."""
    for key in default:
        name, value, usual = f"{prefix}{key}", _value(config, key), _value(default, key)
        yield name, value, usual
        if isinstance(usual, DictConfig) and not default._get_node(key)._is_interpolation():
            yield from _side_by_side(value if isinstance(value, DictConfig) else None, usual, f"{name}.")


def _value(section: DictConfig | None, key: Any) -> Any:
    """Return a value of a section, resolved; OmegaConf's own way does much for a plain one."""
    node = None if section is None else section._get_node(key, validate_access=False)
    if isinstance(node, ValueNode) and not node._is_interpolation() and not node._is_missing():
        return node._value()
    return None if node is None else OmegaConf.select(section, str(key))


def _with_values(files: ConfigFiles, composed: DictConfig, chosen: Sequence[str], values: Sequence[str]) -> DictConfig:
    """Return the config with all overrides.

    Values alone do not change which files it is made of: they are put in as Hydra does it, after the files. Composing
    anew, for anything else, reads every file again.

    Args:
        files: the files of the config.
        composed: the config with the choices alone; it stays as it is.
        chosen: overrides that choose files, such as preset=ppo.
        values: the others.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    config = copy.deepcopy(composed)
    with contextlib.suppress(HydraException, OmegaConfBaseException):  # composing says what is wrong
        for one in OverridesParser.create().parse_overrides([*values]):
            section = isinstance(OmegaConf.select(config, one.key_or_group), DictConfig)  # or a directory of that name
            if section or one.type is not OverrideType.CHANGE or one.is_sweep_override():
                break
            OmegaConf.update(config, one.key_or_group, one.value(), merge=True)
        else:
            return config
    return _compose(files, [*chosen, *values])


def _compose(files: ConfigFiles, overrides: Sequence[str]) -> DictConfig:
    import yaml
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    # Hydra's full name of a choice such as preset=ppo, whose settings go to the top of the config.
    words = [
        override.replace("=", "@_global_=", 1) if override.partition("=")[0] in GROUPS else override
        for override in overrides
    ]
    others = [json.dumps(f"file://{directory}", ensure_ascii=False) for directory in files.directories[1:]]
    also = [f"hydra.searchpath=[{','.join(others)}]"] if others else []
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(files.directories[0]), version_base="1.3"):
            return compose(files.name, overrides=[*also, *words])
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"a file in config/ is not valid YAML: {reason}", "mend it there") from error
    except OverrideParseException as error:
        raise unreadable(error) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(" ".join(str(error).split()), f"{main_command('--cfg')} prints the config") from error


def _sizes(files: ConfigFiles, overrides: Sequence[str], config: DictConfig | None = None) -> list[str]:
    """Choose the sizes of the toy task for the toy model, unless the command line says otherwise.

    Without a config this is a guess, of what the command line and the main file say: composing twice takes time.
    """
    if config is None:
        main = files.directories[0] / f"{files.name}.yaml"
        named = _names(overrides, MODEL) or not NO_MODEL.search(main.read_text(encoding="utf-8", errors="replace"))
    else:
        named = config.actor_rollout_ref.model.path is not None
    if named or _names(overrides, "scale"):
        return []
    return ["scale=toy"] + ["critic_scale=toy"] * (files.directory / "critic_scale").is_dir()


def _check_choice(override: str, files: ConfigFiles) -> None:
    """Refuse an override such as preset=ppo that names no file."""
    group, _, option = override.partition("=")
    options = sorted({path.stem for directory in files.directories for path in (directory / group).glob("*.yaml")})
    if group == "preset" and option in PRESETS and option not in options:
        raise ConfigError(
            f"{override} needs {PRESETS[option]}, which this project was made without",
            f"vextract add {PRESETS[option]}",
        )
    if option not in options:
        raise ConfigError(f"{override}: no such file in config/{group}", choose(option, options))


def _opened(override: str, known: Collection[str]) -> str:
    """Return an override that adds to an open section as one that adds, unless it may be a misspelt one."""
    key, equals, _ = override.partition("=")
    section, _, name = key.rpartition(".")
    if not equals or key in known or section not in OPEN or section not in known:
        return override
    below = f"{section}."
    meant = nearest(name, {other.removeprefix(below) for other in known if other.startswith(below)})
    return override if meant else f"+{override}"


def _check_override(override: str, known: Mapping[str, Any]) -> None:
    name, equals, value = override.partition("=")
    if name.startswith("-"):
        raise ConfigError(f"unknown option {override}", _without_dashes(override, known) or main_command("--help"))
    if name.startswith("~"):
        return
    key = name.lstrip("+")
    if not equals or not key:
        file = Path(override).suffix in (".yaml", ".yml")
        raise ConfigError(
            f"{override!r} is not key=value", main_command("--config", override) if file else main_command("--help")
        )
    _check_section(key, value, known)
    launch = launch_answer(key, value)
    if launch is not None:
        raise ConfigError(*launch)
    if key in known or key in GROUPS:
        return
    now = present_name(key, known)
    if now is not None:
        plus = "" if now in known else "+"
        raise ConfigError(f"{key} is called {now} in this release of verl", f"{plus}{now}={value}")
    if name.startswith("+"):
        return
    section = key.rpartition(".")[0]
    others = (feature for other, feature in ABSENT.items() if other.startswith(f"{section}.") and section not in known)
    if feature := ABSENT.get(key) or next(others, None):
        raise ConfigError(f"{key} is a setting that this project was made without", f"vextract add {feature}")
    meant = _meant(key, known)
    hint = f"did you mean {_with_value(meant, value, known)}?" if meant else _all_keys()
    custom = f"{__name__.partition('.')[0]}/custom"
    raise ConfigError(f"unknown key {key}", f"{hint} (a key of your own, which code in {custom} reads: +{override})")


def _all_keys() -> str:
    return f"{main_command('--cfg')} prints all keys"


def _is_setting(key: str, known: Mapping[str, Any]) -> bool:
    return key in GROUPS or not isinstance(known.get(key), DictConfig)


def _with_value(key: str, value: str, known: Mapping[str, Any]) -> str:
    """Write a setting with the value that was typed, or its default where it does not take that."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if not _is_setting(key, known):
        return key
    node = known.get(key)
    usual = _expected_type(node._value()) if isinstance(node, ValueNode) else None
    expected = known_of(key).null_or or usual
    with contextlib.suppress(HydraException):
        given = OverridesParser.create().parse_override(f"{key}={value}").value()
        if expected is None or given is None or _fits(given, expected):
            return f"{key}={value}"
    return f"{key}={_text(node)}"


def _meant(key: str, known: Mapping[str, Any]) -> str | None:
    """Find the setting, or else the section, that an unknown key most likely meant."""
    settings = {other for other in known if _is_setting(other, known)}
    return meant_setting(key, settings | set(GROUPS), set(known) - settings)


def _without_dashes(option: str, known: Mapping[str, Any]) -> str | None:
    """Write an option such as --learning-rate=1e-6 as the setting that it names."""
    word, equals, value = option.lstrip("-").partition("=")
    key = word.replace("-", "_")
    meant = key if key in known else _meant(key, known)
    if not meant or not _is_setting(meant, known):
        return None
    return f"settings have no dashes: {_set(meant, value if equals else _text(known.get(meant)))}"


def _check_section(key: str, value: str, known: Mapping[str, Any]) -> None:
    """Refuse one value for a section of settings."""
    inside = [other for other in known if other.startswith(f"{key}.") and _is_setting(other, known)]
    within = min(inside, key=lambda other: (_text(known[other]) == "null", other), default=None)
    if within is None or key in GROUPS or value == "null" or value.startswith(("{", "$")):
        return
    hint = f"such as {within}={_text(known[within])}"
    if key in ALIASES:
        hint = f"{ALIASES[key]}={value}"
    elif key == "algorithm":
        hint = f"preset={value}, or algorithm.adv_estimator={value}"
    raise ConfigError(f"{key} has settings of its own, and is given {value!r}", hint)


def _check_former_names(config: DictConfig) -> None:
    """Refuse what a file in config/ sets under a name that nothing reads any more."""
    known = set(flat_keys(config))
    for key in FORMER_KEYS:
        now = present_name(key, known) if key in known else None
        if now is not None:
            raise ConfigError(
                f"a file in config/ sets {key}, which is called {now} in this release of verl", "rename it there"
            )


def _other_choice(name: str, value: Any) -> str:
    if name in ("actor_rollout_ref.rollout.name", "actor_rollout_ref.rollout.mode"):
        (kept, *others) = known_of(name).values
        also = f" ({' or '.join(others)})" if others else ""
        engine = value if value in ENGINES else "NAME"
        return f"leave it {kept}{also}; another engine ({', '.join(ENGINES)}): vextract upgrade --engine {engine}"
    options = ["null" if choice is None else str(choice) for choice in known_of(name).values]
    return choose(str(value), options)


def _names(overrides: Sequence[str], key: str) -> bool:
    return any(override.lstrip("+").startswith(f"{key}=") for override in overrides)


def _expected_type(default: Any) -> type | tuple[type, ...] | None:
    if default is None or isinstance(default, DictConfig):
        return None
    return list if isinstance(default, ListConfig) else type(default)


def _fits(value: Any, expected: type | tuple[type, ...]) -> bool:
    kinds = expected if isinstance(expected, tuple) else (expected,)
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int):
        return int in kinds or float in kinds
    composed: dict[type, type] = {list: ListConfig, dict: DictConfig}
    return isinstance(value, tuple(composed.get(kind, kind) for kind in kinds))


def _type_name(expected: type | tuple[type, ...]) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    names |= {list: "a list", dict: "a mapping"}
    kinds = expected if isinstance(expected, tuple) else (expected,)
    return " or ".join(names[kind] for kind in kinds)


def unreadable(error: Any) -> ConfigError:
    """Return what to tell about an override that is not in Hydra's grammar, from its OverrideParseException."""
    reason = " ".join(str(error.message).partition("See https")[0].split())
    return ConfigError(
        f"cannot read {error.override!r}: {reason}",
        "quote a value that holds =, commas, brackets or blanks, for the shell too: \"key='a=b'\"",
    )
