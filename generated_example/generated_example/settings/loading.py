# vextract:template base/__package__/settings/loading.py - edit freely
"""From the files in config/ and the command line to one checked config.

The YAML is composed by Hydra, so `key=value`, `+new.key=value` and `preset=ppo` work as they do with verl. What differs
is what a mistake gets: an unknown key names the nearest known one, a value of the wrong type says which type is right.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..absent import ABSENT_SETTINGS, PRESETS, lacking
from ..errors import ConfigError
from ..output import main_command, same_command
from . import reward_keys
from .flags import GROUPS, MAIN, ConfigFiles, as_overrides, read_values
from .setting import ALIASES, choose, flat, known_of, meant_setting, nearest, present_name, switched_off
from .setting_checks import launch_answer, names_of, problems

MODEL = "actor_rollout_ref.model.path"
# Sections that hold what the owner's own code takes: what is new in them needs no +.
OPEN_SECTIONS = (reward_keys.MANAGER_ARGUMENTS, f"{reward_keys.FUNCTION}.reward_kwargs", "data.env")
TYPE_NAMES: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
TYPE_NAMES |= {list: "a list", dict: "a mapping"}
TRUTHS = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}


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
    words = [*(as_overrides(read_values(files.values)) if files.values else ()), *overrides]
    chosen = [word for word in words if word.partition("=")[0] in GROUPS]
    for word in chosen:
        group, _, option = word.partition("=")
        if not {*option.split(",")} <= {*files.options(group)}:
            absent = PRESETS if group == "preset" else {}
            if option in absent:
                raise ConfigError(*lacking(word, absent[option]))
            raise ConfigError(f"{word}: no such file in config/{group}", choose(option, files.options(group), absent))
    # The toy model has sizes of its own. Whether it is the toy is clear when all is composed, and guessed until then.
    sizes = [f"{group}=toy" for group in ("scale", "critic_scale") if (files.directory / group).is_dir()]
    may_be_toy = not any(word.startswith("scale=") for word in chosen)
    names_model = [word for word in words if word.lstrip("+").startswith(f"{MODEL}=")]
    is_toy = may_be_toy and all(word.endswith("=null") for word in names_model)
    config, usual = _with_settings(files, sizes * is_toy + chosen, words)
    if may_be_toy and (config.actor_rollout_ref.model.path is None) != is_toy:
        config, usual = _with_settings(files, sizes * (not is_toy) + chosen, words)
    if files.name != MAIN:  # the types are those of the project's own values
        usual = _plain(_compose(ConfigFiles(files.directory), ()))
    check_types(config, usual)
    for problem in problems(config, names_of(overrides)):
        raise ConfigError(*problem)
    return config


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
    # cuDNN's attention plans each shape that it has not seen: 50 ms for each token of a rollout, on an H100.
    torch.backends.cuda.enable_cudnn_sdp(False)


def settle_on(config: DictConfig, device: str) -> None:
    """Have the run compute on `device`, cpu or cuda, and fill in what depends on it."""
    config.local.device = device
    config.local.dtype = config.local.dtype or ("bfloat16" if device == "cuda" else "float32")


def check_choice(name: str, value: Any) -> None:
    """Refuse a value of a setting that has only some values."""
    known = known_of(name)
    if not known.takes(value):
        hint = known.hint.replace("VALUE", str(value)) or choose(str(value), [_text(value) for value in known.values])
        raise ConfigError(f"{name} is {value!r}", hint)


def check_types(config: DictConfig, usual: Mapping[str, Any]) -> None:
    """Compare the type of each setting with that of its usual value, and its value with those that are allowed.

    Args:
        config: the whole config.
        usual: the value that each setting has by default, by its dotted name; and each section.
    """
    values = _plain(config)
    for name, default in usual.items():
        value, setting = values.get(name), known_of(name)
        check_choice(name, value)
        if expected := _wrong_type(name, value, default):
            types, better = " or ".join(TYPE_NAMES[kind] for kind in expected), _example(name, _text(value), usual)
            raise ConfigError(f"{name} is {value!r}, which is not {types}", same_command(better))
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and not setting.has_in_range(value) and not any(switched_off(config, [name])):
            text = f"{name} is {value}, and must be {setting.range or 'a number'}"
            raise ConfigError(text, setting.hint or same_command(f"{name}={_text(default)}"))


def _wrong_type(name: str, value: Any, default: Any) -> tuple[type, ...]:
    """Return the types that a setting may have, if the value is of none of them."""
    types = known_of(name).null_or
    if value is None and types:
        return ()
    types = types or (() if default is None or isinstance(default, dict) else (type(default),))
    fits = bool in types if isinstance(value, bool) else isinstance(value, types)
    return () if fits or (type(value) is int and float in types) else types


def _text(value: Any) -> str:
    """Write a value as it is typed."""
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":")).replace('"', "")
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _plain(config: DictConfig) -> dict[str, Any]:
    """Return the resolved values of all settings, and sections, by their dotted names."""
    from omegaconf.errors import OmegaConfBaseException

    try:
        return dict(flat(OmegaConf.to_container(config, resolve=True)))
    except OmegaConfBaseException as error:
        raise ConfigError(" ".join(str(error).split()), _all_keys()) from error


def _with_settings(
    files: ConfigFiles, chosen: Sequence[str], given: Sequence[str]
) -> tuple[DictConfig, dict[str, Any]]:
    """Return the config with all settings, and the plain values that it has by the chosen files alone.

    Values are put in as Hydra does it, after the files. Composing anew, for anything else, reads every file again.

    Args:
        files: the files of the config.
        chosen: overrides that choose files, such as preset=ppo.
        given: all overrides.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    config = _compose(files, chosen)
    usual = _plain(config)
    words = [_opened(word, usual) for word in given if word not in chosen]
    for word, following in zip(words, [*words[1:], "="], strict=False):
        _check_override(word, usual, following)
    with contextlib.suppress(HydraException, OmegaConfBaseException):  # composing says what is wrong
        for one in OverridesParser.create().parse_overrides(words):
            section = isinstance(usual.get(one.key_or_group), dict)  # or a directory of that name
            if section or one.type is not OverrideType.CHANGE or one.is_sweep_override():
                break
            OmegaConf.update(config, one.key_or_group, one.value(), merge=True)
        else:
            return config, usual
    return _compose(files, [*chosen, *words]), usual


def _compose(files: ConfigFiles, overrides: Sequence[str]) -> DictConfig:
    import yaml
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException, MissingConfigException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    # Hydra's full name of a choice such as preset=ppo, whose settings go to the top of the config.
    words = [word.replace("=", "@_global_=", 1) if word.partition("=")[0] in GROUPS else word for word in overrides]
    others = [json.dumps(f"file://{directory}", ensure_ascii=False) for directory in files.directories[1:]]
    also = [f"hydra.searchpath=[{','.join(others)}]"] if others else []
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(files.directories[0]), version_base="1.3"):
            return compose(files.name, overrides=[*also, *words])
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML in config/: {' '.join(str(error).split())}", "mend it there") from error
    except OverrideParseException as error:
        raise unreadable(error) from error
    except (HydraException, OmegaConfBaseException) as error:
        missing = Path((isinstance(error, MissingConfigException) and error.missing_cfg_file) or "").name
        if missing in PRESETS:  # a preset of the owner's begins with it
            raise ConfigError(*lacking(f"preset {missing}", PRESETS[missing])) from error
        text = " ".join(str(error).replace("@_global_", "").split())
        hint = "for --multirun: vextract add sweep"
        raise ConfigError(text, hint if "--multirun" in text else _all_keys()) from error


def unreadable(error: Any) -> ConfigError:
    """Return what to tell about an override that is not in Hydra's grammar, from its OverrideParseException."""
    reason = " ".join(str(error.message).partition("See https")[0].split())
    hint = "quote a value that holds more than letters and digits of ASCII, for the shell too: \"key='a=ü'\""
    return ConfigError(f"cannot read {error.override!r}: {reason}", hint)


def _opened(override: str, usual: Mapping[str, Any]) -> str:
    """Return an override that adds to an open section as one that adds, unless it may be a misspelt one."""
    key, equals, _ = override.partition("=")
    section, _, name = key.rpartition(".")
    if not equals or key in usual or section not in OPEN_SECTIONS or section not in usual:
        return override
    return override if nearest(name, usual[section] or ()) else f"+{override}"


def _check_override(override: str, usual: Mapping[str, Any], following: str) -> None:
    """Refuse a word that is no setting, and say which one it most likely meant; `following` may be a flag's value."""
    if override.startswith("~"):
        return
    name, equals, value = override.partition("=")
    key = name.lstrip("+-").replace("-", "_") if name.startswith("-") else name.lstrip("+")
    settings = {other for other in usual if not isinstance(usual[other], dict)} | {*GROUPS}
    if name.startswith("-"):
        meant = key if key in settings else meant_setting(key, settings, ())
        example = _example(meant, value if equals or "=" in following else following, usual) if meant else ""
        hint = f"settings have no dashes: {same_command(example)}" if meant else main_command("--help")
        raise ConfigError(f"unknown option {override}", hint)
    if not equals or not key:
        words = ("--config", override) if Path(override).suffix in (".yaml", ".yml") else ("--help",)
        raise ConfigError(f"{override!r} is not key=value", main_command(*words))
    inside = sorted(other for other in settings if other.startswith(f"{key}."))
    if inside and value != "null" and not value.startswith(("{", "$")):
        within = min(inside, key=lambda other: usual[other] is None)
        hint = f"{ALIASES[key]}={value}" if key in ALIASES else f"such as {within}={_text(usual[within])}"
        hint = f"preset={value}, or algorithm.adv_estimator={value}" if key == "algorithm" else hint
        raise ConfigError(f"{key} has settings of its own, and is given {value!r}", hint)
    if (launch := launch_answer(key, value)) is not None:
        raise ConfigError(*launch)
    if key in usual or key in GROUPS:
        return
    if (now := present_name(key, usual)) is not None:
        plus = "" if now in usual else "+"
        raise ConfigError(f"{key} is called {now} in this release of verl", f"{plus}{now}={value}")
    if name.startswith("+"):
        return
    section = f"{key.rpartition('.')[0]}."
    others = [each for other, each in ABSENT_SETTINGS.items() if other.startswith(section)]
    if feature := ABSENT_SETTINGS.get(key) or (section[:-1] not in usual and next(iter(others), None)):
        raise ConfigError(*lacking(key, feature))
    meant = meant_setting(key, settings, set(usual) - settings)
    hint = f"did you mean {_example(meant, value, usual) if meant in settings else meant}?" if meant else _all_keys()
    custom = f"{__name__.partition('.')[0]}/custom"
    raise ConfigError(f"unknown key {key}", f"{hint} (a key of your own, which code in {custom} reads: +{override})")


def _example(key: str, value: str, usual: Mapping[str, Any]) -> str:
    """Write a setting with the value that was typed; where it does not take that, with what was meant or is usual."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    given: Any = value
    with contextlib.suppress(HydraException):
        given = OverridesParser.create().parse_override(f"{key}={value}").value()
    types = _wrong_type(key, given, usual.get(key))
    if value and not types:
        return f"{key}={value}"
    meant = f"[{value}]" if types == (list,) and isinstance(given, str) else _text(usual.get(key))
    return f"{key}={TRUTHS.get(str(given).lower(), meant) if bool in types else meant}"


def _all_keys() -> str:
    return f"{main_command('--cfg')} prints the config, with all keys"
