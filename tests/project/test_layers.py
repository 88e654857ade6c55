"""Templates, newest first: the newest release is `base/` and its siblings, and `until/V/` is what older ones need."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

from extractor.pipeline.generate import complete
from extractor.pipeline.render import config_files, templates_of
from extractor.pipeline.render.layers import UNTIL, behind
from extractor.pipeline.render.presets import ESTIMATOR, LOSS, preset_of, presets
from extractor.values import releases, resources
from extractor.values.configtree.rename import with_names
from extractor.values.configtree.yaml_text import Unsupported
from extractor.values.options import RECIPES, Options

EVERY = [
    (manifest, Options("toy", manifest.release, engine, "grpo", tuple(item.name for item in manifest.features), recipe))
    for manifest in map(releases.load, releases.supported())
    for engine in manifest.engines
    for recipe in RECIPES
]


@cache
def chosen(release: str) -> dict[str, set[str]]:
    """The templates that become files in projects of a release: the path in the project and the layer's own part."""
    found: dict[str, set[str]] = {}
    for manifest, options in EVERY:
        if manifest.release == release:
            for path, templates in templates_of(manifest, options).items():
                found.setdefault(path, set()).add(templates[-1])
    return found


def test_the_newest_release_needs_no_template_of_older_ones() -> None:
    newest = releases.supported()[-1]
    used = {template for templates in chosen(newest).values() for template in templates}
    assert used
    assert not [template for template in used if template.startswith(f"{UNTIL}/")]


def test_every_template_of_older_releases_is_used_by_the_release_that_it_is_named_after() -> None:
    root = resources.templates() / UNTIL
    there = {path.relative_to(root.parent).as_posix() for path in root.rglob("*") if path.is_file()}
    used = set()
    for folder in root.iterdir():
        assert folder.name in releases.supported()[:-1]
        used |= {template for templates in chosen(folder.name).values() for template in templates}
    assert {path for path in there if not path.endswith(".absent")} <= used
    for path in there - used:
        _, release, part = path.removesuffix(".absent").split("/", 2)
        manifest, options = next(item for item in EVERY if item[0].release == release)
        place = part.partition("/")[2].removesuffix(".jinja").replace("__package__", "toy")
        assert place not in templates_of(manifest, options)
        assert (resources.templates() / part).is_file()


@pytest.mark.parametrize("release", releases.supported())
def test_the_first_line_of_a_file_names_its_template(release: str) -> None:
    manifest, options = next(item for item in EVERY if item[0].release == release)
    templates = templates_of(manifest, options)
    files = config_files(manifest, options)
    assert len(files) > 15
    for path, text in files.items():
        assert text.splitlines()[0].startswith(f"# vextract:template {templates[path][-1]}"), path


def test_of_several_templates_the_nearest_release_wins() -> None:
    manifest, options = next(item for item in EVERY if item[0].release == "0.6.1")
    assert templates_of(manifest, options)["toy/workers/actor.py"] == (
        "base/__package__/workers/actor.py",
        "until/0.7.1/base/__package__/workers/actor.py",
        "until/0.7.0/base/__package__/workers/actor.py",
    )
    assert "toy/workers/local_engine.py" not in behind(["base", "until/0.7.1/base"], "toy")


@pytest.mark.parametrize("release", releases.supported())
def test_a_run_with_the_settings_of_a_preset_has_that_preset(release: str) -> None:
    manifest = releases.load(release)
    found = presets(manifest)
    assert set(found) == set(manifest.algorithms)
    assert {name: preset_of(settings, manifest) for name, settings in found.items()} == {name: name for name in found}


def test_a_loss_says_more_than_the_estimator() -> None:
    manifest = releases.load(releases.supported()[-1])
    assert preset_of({ESTIMATOR: "rloo", LOSS: "gspo"}, manifest) == "gspo"
    assert preset_of({}, manifest) == "ppo"
    assert preset_of({ESTIMATOR: "grpo", LOSS: "mine"}, manifest) is None


NEW = """\
# Of the file.
data:
  size: 4  # four
# Above the section.
reward:
  name: env
  # What it takes.
  more:
    buffer:
      # How long.
      len: 2

      log: false
other: [1, 2]
"""


def test_a_section_moves_whole_with_its_comments() -> None:
    names = {"reward.name": "old.manager", "reward.more.buffer": "old.long", "reward.more": "old.kwargs"}

    def rename(key: str) -> str | None:
        for new, old in sorted(names.items(), key=lambda pair: -len(pair[0])):
            if key == new or key.startswith(f"{new}."):
                return old + key.removeprefix(new)
        return None

    assert with_names(NEW, rename) == (
        "# Of the file.\ndata:\n  size: 4  # four\n"
        "old:\n  # Above the section.\n  manager: env\n"
        "  # What it takes.\n  long:\n    # How long.\n    len: 2\n\n    log: false\n"
        "other: [1, 2]\n"
    )
    assert with_names(NEW, lambda key: None) == NEW


def test_a_section_that_would_be_in_two_places_is_refused() -> None:
    with pytest.raises(Unsupported, match="data twice"):
        with_names(NEW, lambda key: f"data.{key}" if key.startswith("reward") else None)


def test_a_preset_is_one_file_and_its_name_in_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = releases.supported()[-1]
    for name in ("templates", "manifests"):
        shutil.copytree(getattr(resources, name)(), tmp_path / name)
    (tmp_path / "templates/base/config/preset/mine.yaml").write_text(
        "# vextract:template - edit freely\nalgorithm:\n  adv_estimator: mine\n"
    )
    manifest = tmp_path / f"manifests/verl-{newest}.toml"
    text = manifest.read_text(encoding="utf-8")
    assert "\nalgorithms = " not in text
    manifest.write_text(text.replace("\n[source]", '\nalgorithms = {add = ["mine"]}\n\n[source]', 1), encoding="utf-8")
    monkeypatch.setattr(resources, "_directory", lambda name: tmp_path / name)
    loaded = releases.load(newest)
    options = complete(Options("toy", newest, algorithm="mine"), loaded)
    files = config_files(loaded, options)
    assert "preset@_global_: mine" in files["config/ppo_trainer.yaml"]
    assert files["config/preset/mine.yaml"].startswith("# vextract:template base/config/preset/mine.yaml")
    assert preset_of({ESTIMATOR: "mine"}, loaded) == "mine"
