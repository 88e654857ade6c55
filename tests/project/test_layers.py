"""Templates, newest first: the newest release is `base/` and its siblings, and `until/V/` is what older ones need."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from extractor.pipeline.generate import complete, list_recipes
from extractor.pipeline.render import map_templates, render_config
from extractor.pipeline.render.layers import UNTIL, list_engine_layers, list_engine_modes
from extractor.pipeline.render.presets import ESTIMATOR, match_preset, read_presets
from extractor.values import releases, resources
from extractor.values.options import Options

EVERY = [
    (manifest, Options("toy", manifest.release, engine, "grpo", tuple(item.name for item in manifest.features), recipe))
    for manifest in map(releases.load, releases.list_supported())
    for engine in manifest.engines
    for recipe in list_recipes(manifest)
]


@cache
def chosen(release: str) -> dict[str, set[str]]:
    """The templates that become files in projects of a release: the path in the project and the layer's own part."""
    found: dict[str, set[str]] = {}
    for manifest, options in EVERY:
        if manifest.release == release:
            for path, templates in map_templates(manifest, options).items():
                found.setdefault(path, set()).add(templates[-1])
    return found


def test_each_release_uses_the_templates_that_are_there_for_it() -> None:
    """The newest none of older ones; and of those named after a release each is one of its files."""
    newest = releases.list_supported()[-1]
    assert not [one for templates in chosen(newest).values() for one in templates if one.startswith(f"{UNTIL}/")]
    root = resources.find_templates() / UNTIL
    there = {path.relative_to(root.parent).as_posix() for path in root.rglob("*") if path.is_file()}
    used = {one for folder in root.iterdir() for templates in chosen(folder.name).values() for one in templates}
    assert {path for path in there if not path.endswith(".absent")} <= used
    assert [
        path for path in there - used if not (root.parent / path.split("/", 2)[2][: -len(".absent")]).is_file()
    ] == []


@pytest.mark.slow
def test_a_run_with_the_settings_of_a_preset_has_that_preset() -> None:
    for release in releases.list_supported():
        manifest = releases.load(release)
        found = read_presets(manifest)
        assert set(found) == set(manifest.algorithms)
        matched = {name: match_preset(settings, manifest) for name, settings in found.items()}
        assert matched == {name: name for name in found}, release


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes what vextract is extended in a copy, which it takes everything from."""
    for name in ("templates", "manifests"):
        shutil.copytree(getattr(resources, f"find_{name}")(), tmp_path / name)
    monkeypatch.setattr(resources, "_find_directory", lambda name: tmp_path / name)
    for known in (list_engine_layers, list_engine_modes):
        known.cache_clear()
    return tmp_path


def declared(copied: Path, line: str) -> str:
    """Add a line to the top of the newest manifest; returns its release."""
    newest = releases.list_supported()[-1]
    manifest = copied / f"manifests/verl-{newest}.toml"
    text = manifest.read_text(encoding="utf-8")
    assert f"\n{line.partition(' ')[0]} = " not in text
    manifest.write_text(text.replace("\n[source]", f"\n{line}\n\n[source]", 1), encoding="utf-8")
    return newest


def test_a_preset_is_one_file_and_its_name_in_a_manifest(copied: Path) -> None:
    (copied / "templates/base/config/preset/mine.yaml").write_text(
        "# vextract:template - edit freely\nalgorithm:\n  adv_estimator: mine\n"
    )
    newest = declared(copied, 'algorithms = {add = ["mine"]}')
    loaded = releases.load(newest)
    options = complete(Options("toy", newest, algorithm="mine"), loaded)
    files = render_config(loaded, options)
    assert "preset@_global_: mine" in files["config/ppo_trainer.yaml"]
    assert files["config/preset/mine.yaml"].startswith("# vextract:template base/config/preset/mine.yaml")
    assert match_preset({ESTIMATOR: "mine"}, loaded) == "mine"


def test_a_release_that_changes_nothing_is_one_manifest(copied: Path) -> None:
    before = releases.list_supported()[-1]
    text = (copied / f"manifests/verl-{before}.toml").read_text(encoding="utf-8")
    source = text[text.index("[source]") :].split("\n\n")[0]
    made = f'schema = 1\nrelease = "9.9.9"\nfollows = "{before}"\n\n{source.replace(before, "9.9.9")}\n'
    (copied / "manifests/verl-9.9.9.toml").write_text(made, encoding="utf-8")
    assert releases.list_supported()[-1] == "9.9.9"
    newest, last = releases.load("9.9.9"), releases.load(before)
    for engine in last.engines:
        files = render_config(newest, complete(Options("toy", "9.9.9", engine), newest))
        assert files == render_config(last, complete(Options("toy", before, engine), last))
        assert map_templates(newest, Options("toy", "9.9.9", engine)) == map_templates(
            last, Options("toy", before, engine)
        )
