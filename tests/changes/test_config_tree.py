"""Config trees, composed without running anything."""

import pytest
import yaml

from extractor.pipeline.source import Source
from extractor.usecases.changes.config_keys import compose_upstream_config
from extractor.values.configtree.settings import list_every_setting

FILES = {
    "main.yaml": "defaults:\n  - optim@actor.optim: adamw\n  - optional critic: missing\n  - preset@_global_: a\n"
    "  - _self_\nactor:\n  clip: 0.2\n  optim:\n    lr: 2\n",
    "optim/adamw.yaml": "defaults:\n  - base\n  - ../engine@engine: fsdp\nlr: 1\nbetas: [0.9, 0.999]\n",
    "optim/base.yaml": "weight_decay: 0.1\nlr: null\n",
    "engine/fsdp.yaml": "offload: True\n",
    "preset/a.yaml": "actor: {clip: 0.1}\n",
    "preset/b.yaml": "actor: {other: 0.1}\n",
    "mine.yaml": "# @package trainer\nsteps: 3\n",
}


def test_every_setting_knows_all_options_and_where_they_stand() -> None:
    found = {(item.key, item.file, item.line) for item in list_every_setting(FILES, "main.yaml")}
    assert ("actor.other", "preset/b.yaml", 1) in found
    assert ("actor.optim.lr", "optim/adamw.yaml", 4) in found
    assert ("actor.optim.lr", "main.yaml", 9) in found
    assert ("trainer.steps", "mine.yaml", 2) in found


@pytest.mark.parametrize("text", ["a: [1", "1\n", "<<<<<<< ours\na: 1\n=======\na: 2\n>>>>>>> theirs\n"])
def test_what_is_no_yaml(text: str) -> None:
    assert list_every_setting({"main.yaml": text}, "main.yaml") == []


def test_a_file_may_be_a_list_below_a_package() -> None:
    files = {"main.yaml": "defaults: [rows: two, _self_]\nother: 3\n", "rows/two.yaml": "- a\n- {name: b}\n"}
    found = {item.key: item.value for item in list_every_setting(files, "main.yaml")}
    assert found == {"rows": "[a, {name: b}]", "other": "3"}


@pytest.mark.parametrize("release", ["0.5.0", "0.6.1"])
@pytest.mark.usefixtures("verl")
def test_upstreams_config_equals_what_upstream_composed_itself(release: str, request: pytest.FixtureRequest) -> None:
    """The wheel carries the result of Hydra's own composition, for reference."""
    source: Source = request.getfixturevalue(f"verl_{release.replace('.', '_')}")
    reference = yaml.safe_load(source.read("verl/trainer/config/_generated_ppo_trainer.yaml"))
    assert set(compose_upstream_config(source)) == set(_keys(reference))


def _keys(node: dict[str, object], above: str = "") -> list[str]:
    found = []
    for name, value in node.items():
        found.append(above + name)
        if isinstance(value, dict):
            found += _keys(value, f"{above}{name}.")
    return found
