"""Every config key that a page names exists: in the newest release, or in one that is named on the spot."""

import re
from collections.abc import Iterator
from functools import cache

import pytest
import yaml

from extractor.values import releases
from extractor.values.configtree import compose, flatten
from scripts.reference import all_config_files
from tests.docs.test_pages import PAGES

pytestmark = pytest.mark.slow  # composes the configs of all releases

# Sections that take any key: arguments of an engine, and the settings of a reference model of its own.
OPEN = ("engine_kwargs.vllm", "engine_kwargs.sglang", "actor_rollout_ref.ref.model")
RELEASE = re.compile(r"\b0\.\d\.\d\b")
TOKEN = re.compile(r"(?<![\w./{$+-])([a-z_]+(?:\.[a-z_0-9]+)+)(?:\.\*)?(?![\w(/])")
# Programs, and scripts for verl itself.
OF_VERL = re.compile(r"```(?:python|toml|yaml|bash file=)[^\n]*\n.*?```", re.DOTALL)
# Settings of verl, or of forks of it, that pages say something about and no project has.
OF_VERL_ALONE = {
    "data.image_patch_size",
    "trainer.device",
    "env.max_steps",
    "env.rollout.n",
    "algorithm.rollout_is_threshold",
}
_FILES = "py md yaml toml lock json jsonl html png zip sh txt parquet pt safetensors css log"
FILES = _FILES.split()


@cache
def settings(release: str) -> frozenset[str]:
    """The keys of a project with everything, sections included."""
    files = {path.removeprefix("config/"): text for path, text in all_config_files(release).items()}
    composed = compose(files, "ppo_trainer.yaml")
    recipes = [yaml.safe_load(text) or {} for path, text in files.items() if path.startswith(("recipe/", "objective/"))]
    names: set[str] = set()
    for key in [key for config in (composed.config, *recipes) for key in flatten(config)]:
        parts = key.split(".")
        names |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return frozenset(names)


def exists(key: str, release: str) -> bool:
    """Say whether a release has a setting that ends in this key: pages shorten `actor_rollout_ref.rollout.n`."""
    if any(f"{section}." in f"{key}." for section in OPEN):
        return True
    return any(name == key or name.endswith(f".{key}") for name in settings(release))


def named(text: str) -> Iterator[tuple[str, str]]:
    """The keys that a text names in backticks or in shell blocks, each with its paragraph or its table."""
    sections = {name.rpartition(".")[2] for release in releases.list_supported() for name in sections_of(release)}
    text = re.sub(r"\n\s*\n```", "\n```", OF_VERL.sub("", text))  # a block belongs to what introduces it
    for paragraph in re.split(r"\n\s*\n", text):
        code = " ".join(re.findall(r"`([^`]+)`", paragraph)) if "```" not in paragraph else paragraph
        for key in TOKEN.findall(code):
            first, *_, last = key.split(".")
            if first in sections and last not in FILES and key not in OF_VERL_ALONE:
                yield key, paragraph


@cache
def sections_of(release: str) -> frozenset[str]:
    """The keys that hold others."""
    return frozenset(name.rpartition(".")[0] for name in settings(release)) - {""}


def test_pages_name_keys_of_the_newest_release() -> None:
    newest, found, wrong = releases.find_default(), 0, []
    for page in PAGES:
        for key, paragraph in named(page.read_text(encoding="utf-8")):
            found += 1
            said = [release for release in RELEASE.findall(paragraph) if release in releases.list_supported()]
            if not any(exists(key, release) for release in (newest, *said)):
                wrong.append((page.name, key))
    assert wrong == []
    assert found > 100
    assert not exists("reward_model.reward_kwargs", newest)
