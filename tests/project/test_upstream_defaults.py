"""What a project's settings are where its owner says nothing: what upstream's own YAML says, or there is a reason.

verl's defaults stand in its YAML; those of its dataclasses, and those that its code gives to `get`, are often others.
"""

import dataclasses
import fnmatch
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from extractor.importers.config.release import ReleaseConfig
from extractor.values.configtree import compose, flatten, parse_override, resolve
from scripts.reference import all_config_files
from tests.project.support import PACKAGE, Configuration, Made, Maker, forget
from tests.releases import ALL, newest_release, source_of

PAGE = (Path(__file__).resolve().parents[2] / "docs/recipes.md").read_text(encoding="utf-8")
ROWS = PAGE.partition("## Defaults that are not verl's")[2].partition("\n## ")[0].splitlines()
# Patterns of keys of which a project has another default than upstream's YAML, on purpose: the page says which and why.
DIFFERENT = [name for row in ROWS if row.startswith("| `") for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def is_meant(key: str) -> bool:
    """Whether a key has a default of the project's own on purpose."""
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in DIFFERENT)


@cache
def upstream(release: str) -> dict[str, Any]:
    """The config of a release, nested and resolved."""
    return resolve(ReleaseConfig.of(source_of(release)).compose().config)


@cache
def own(release: str) -> dict[str, Any]:
    """The config of a project with everything, by dotted key, without what a preset or a size changes."""
    files = {path.removeprefix("config/"): text for path, text in all_config_files(release).items()}
    config = compose(files, "ppo_trainer.yaml", [parse_override("preset@_global_=ppo")]).config
    return flatten(resolve(config, {}))


@pytest.mark.parametrize("release", ALL)
def test_a_key_of_upstreams_has_its_default(verl: None, release: str) -> None:
    theirs = flatten(upstream(release))
    different = {key for key, value in own(release).items() if key in theirs and theirs[key] != value}
    assert sorted(key for key in different if not is_meant(key)) == []


# Before 0.6.0 the actor's settings are a section of the config as it is.
@pytest.mark.parametrize("release", newest_release()[ALL.index("0.6.0") :])
def test_a_field_of_a_dataclass_is_what_upstreams_yaml_says(
    made: Maker, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    """Every field of every config object that a project makes, down to those that its own config never names."""
    project = made(Configuration(release, "hf", everything=True))
    monkeypatch.syspath_prepend(str(project.root))
    try:
        found = dict(_fields_of(project))
    finally:
        forget(PACKAGE)
    theirs = upstream(release)
    wanted = {key: _at(theirs, key, default) for key, (_, default) in found.items()}
    wrong = {key: (value, wanted[key]) for key, (value, _) in found.items() if value != wanted[key]}
    assert [item for item in wrong.items() if not is_meant(item[0])] == []
    assert len(found) > 50


def _fields_of(project: Made) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Make the config objects of a project, as its policy, its reference and its critic do.

    Yields:
        Upstream's key, the value, and the default of the dataclass.
    """
    names = ("settings.loading", "workers.policy", "workers.role_configs")
    loading, policy, roles = (import_module(f"{PACKAGE}.{name}") for name in names)
    base = import_module(f"{PACKAGE}.vendored.base_config").BaseConfig
    config = loading.load_config(project.root / "config", ["actor_rollout_ref.model.path=model", "preset=ppo"])
    config.local.dtype = "bfloat16"
    section = config.actor_rollout_ref
    settings = policy.resolve_sizes(section.actor, section.rollout.n, 1)
    settings["use_remove_padding"] = section.model.use_remove_padding
    made = {"actor_rollout_ref.actor": roles.actor_config(config, settings)}
    if hasattr(roles, "engine_config"):
        critic = OmegaConf.create(OmegaConf.to_container(config.critic, resolve=True))
        critic.fsdp_config = critic.model.fsdp_config
        made["actor_rollout_ref.ref.fsdp_config"] = roles.engine_config(section.ref)
        made["critic.fsdp"] = roles.engine_config(critic)
        made["critic.optim"] = roles.optimizer_config(critic)
    for key, value in made.items():
        yield from _walk(value, key, base)


def _walk(config: Any, key: str, base: type) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in ("_target_", "engine"):  # the engine's settings are those of fsdp_config
            continue
        name = f"{key}.{field.name}"
        if isinstance(value, base) and dataclasses.is_dataclass(value):
            yield from _walk(value, name, base)
        elif not OmegaConf.is_config(value):
            factory = field.default_factory
            yield name, (value, field.default if factory is dataclasses.MISSING else factory())


def _at(config: Any, key: str, default: Any) -> Any:
    """Return the value at a dotted key of a nested config; the default where it has none."""
    for part in key.split("."):
        if not isinstance(config, dict) or part not in config:
            return default
        config = config[part]
    return config
