"""What changed between 0.5.0 and 0.6.1, in both directions, against what is known of these releases."""

from collections.abc import Mapping

import pytest
import yaml

from extractor.importers.config.release import ReleaseConfig
from extractor.pipeline.generate import Generated
from extractor.usecases.changes import ChangeKind, Changes, OwnerKey, SymbolChange, report
from extractor.usecases.changes.changeset import LostKey
from extractor.usecases.changes.config_keys import find_gone_keys, select_below_config, select_emitted_config
from extractor.values import releases
from extractor.values.configtree import flatten
from extractor.values.configtree.settings import list_every_setting
from extractor.values.renamed_config_keys import KeyRenames
from tests.lifecycle.releases import Configuration, generated
from tests.releases import source_of

ALGOS = "verl.trainer.ppo.core_algos"


@pytest.fixture(scope="module")
def sides(verl: None) -> dict[str, Generated]:
    return {release: generated(Configuration(release, algorithm="ppo")) for release in ("0.5.0", "0.6.1")}


@pytest.fixture(scope="module")
def forward(sides: dict[str, Generated]) -> Changes:
    return report(sides["0.5.0"], sides["0.6.1"])


def symbol(found: Changes, name: str) -> SymbolChange:
    return next(item for item in found.symbols if item.place.symbol == name)


KNOWN = {
    f"{ALGOS}:agg_loss": ChangeKind.BODY,
    f"{ALGOS}:kl_penalty": ChangeKind.BODY,
    f"{ALGOS}:compute_policy_loss": ChangeKind.GONE,
    f"{ALGOS}:compute_policy_loss_clip_cov": ChangeKind.SIGNATURE,
    f"{ALGOS}:compute_policy_loss_vanilla": ChangeKind.NEW,
    f"{ALGOS}:compute_policy_loss_gspo": ChangeKind.NEW,
    f"{ALGOS}:compute_policy_loss_geo_mean": ChangeKind.NEW,
    f"{ALGOS}:compute_value_loss": ChangeKind.UNCHANGED,
    "verl.trainer.ppo.ray_trainer:apply_kl_penalty": ChangeKind.WORDING,
    "verl.utils.dataset.rl_dataset:RLHFDataset": ChangeKind.SIGNATURE,
    "verl.utils.dataset.rl_dataset:collate_fn": ChangeKind.BODY,
    "verl.workers.config.actor:FSDPActorConfig": ChangeKind.NEW,
}


def test_known_changes(forward: Changes) -> None:
    assert {name: symbol(forward, name).change for name in KNOWN} == KNOWN
    details = " ".join(symbol(forward, f"{ALGOS}:compute_policy_loss_kl_cov").details)
    assert "-> tuple[torch.Tensor, dict[str, Any]]" in details
    assert "parameter rollout_is_weights new" in details
    assert symbol(forward, f"{ALGOS}:agg_loss").computing == ("agg_loss",)
    moved = symbol(forward, "verl.workers.config.critic:FSDPCriticConfig")
    assert moved.old.symbol == "verl.trainer.config.config:FSDPCriticConfig"
    assert moved.details[0] == "was verl.trainer.config.config:FSDPCriticConfig"
    names = [(item.place.symbol, item.new is None) for item in forward.symbols]
    assert len(names) == len(set(names))
    assert sum(forward.counts().values()) == len(names) > 100


def test_the_diff_is_of_upstreams_text(forward: Changes, sides: dict[str, Generated]) -> None:
    text = symbol(forward, f"{ALGOS}:agg_loss").diff("0.5.0", "0.6.1")
    assert text.startswith("--- verl-0.5.0/verl/trainer/ppo/core_algos.py agg_loss\n")
    old, new = (source_of(release).read("verl/trainer/ppo/core_algos.py").splitlines() for release in sides)
    for line in text.splitlines()[2:]:
        if line[:1] in "+-":
            assert line[1:] in (old if line[0] == "-" else new)
    assert symbol(forward, f"{ALGOS}:compute_value_loss").diff("0.5.0", "0.6.1") == ""


def test_keys_both_ways(sides: dict[str, Generated], forward: Changes) -> None:
    style, scheduler = (f"actor_rollout_ref.actor.optim.{name}" for name in ("warmup_style", "lr_scheduler_type"))
    assert LostKey(style, scheduler) in forward.project_keys.lost
    assert {scheduler, "actor_rollout_ref.actor.optim.optimizer"} <= set(forward.project_keys.gained)
    back = report(sides["0.6.1"], sides["0.5.0"])
    assert back.counts()[ChangeKind.NEW] == forward.counts()[ChangeKind.GONE]
    assert back.counts()[ChangeKind.UNCHANGED] == forward.counts()[ChangeKind.UNCHANGED]
    assert LostKey(scheduler, style) in back.project_keys.lost


def test_the_owners_keys(sides: dict[str, Generated]) -> None:
    emitted = {release: select_emitted_config(side.tree) for release, side in sides.items()}
    known = [select_below_config(emitted[release]) for release in ("0.5.0", "0.6.1")]
    optim = "actor_rollout_ref.actor.optim"
    mine = {
        "config/preset/mine.yaml": "my_own: 1\ntrainer:\n  total_epochs: 3\ncritic:\n  optim:\n"
        f"    lr_warmup_steps_ratio: ${{{optim}.warmup_style}}\n",
        "config/broken.yaml": "a: [",
    }
    line = emitted["0.5.0"]["config/optim/adamw.yaml"].splitlines().index("warmup_style: constant") + 1
    renames = KeyRenames("0.5.0", "0.6.1")
    assert find_gone_keys({**emitted["0.5.0"], **mine}, *known, renames) == (
        *(
            OwnerKey("config/optim/adamw.yaml", line, f"{section}.warmup_style", f"{section}.lr_scheduler_type")
            for section in (optim, "critic.optim")
        ),
        OwnerKey("config/preset/mine.yaml", 6, f"{optim}.warmup_style", f"{optim}.lr_scheduler_type", reference=True),
    )
    assert find_gone_keys(emitted["0.6.1"], *known, renames) == ()


# Not upstream's: settings that upstream has no key for, and those that it reads without having a default.
OWN = ("local.", "reward.reward_kwargs")


@pytest.mark.parametrize(("before", "release"), [("0.5.0", "0.6.0"), ("0.7.0", "0.7.1"), ("0.7.1", "0.8.0")])
@pytest.mark.usefixtures("verl")
def test_renamed_keys_are_true(before: str, release: str) -> None:
    """Each old name is one of the release before, each new name one of this release, and the old one has no effect."""
    config = ReleaseConfig.of(source_of(release)).compose().config
    old, new = set(_keys(ReleaseConfig.of(source_of(before)).compose().config)), set(_keys(config))
    for key, renamed in releases.load(release).renamed_keys.items():
        if not renamed.startswith(OWN):
            assert key in old, key
            assert renamed in new, renamed
            inside = [
                item for item in old if item.startswith(f"{key}.") and not item.rpartition(".")[2].startswith("_")
            ]
            assert [item for item in inside if KeyRenames(before, release)(item) not in new] == []
        left = [item for name, item in flatten(config).items() if name == key or name.startswith(f"{key}.")]
        assert all(item is None for item in left), key


def test_renames_go_both_ways_and_through_sections() -> None:
    renaming = [name for name in releases.list_supported() if releases.load(name).renamed_keys]
    assert renaming == ["0.6.0", "0.7.1", "0.8.0"], "those that are tested above"
    assert releases.load("0.4.0").former_keys == {}
    found = releases.load("0.9.1").former_keys
    assert found["actor_rollout_ref.actor.optim.warmup_style"] == "actor_rollout_ref.actor.optim.lr_scheduler_type"
    assert found["reward_model.overlong_buffer"] == "reward.reward_kwargs.overlong_buffer_cfg"
    forward, back = KeyRenames("0.5.0", "0.6.1"), KeyRenames("0.6.1", "0.5.0")
    assert forward("ray_init.num_cpus") == "ray_kwargs.ray_init.num_cpus"
    assert forward("ray_init.timeline_json_file") == "ray_kwargs.timeline_json_file"
    assert back("ray_kwargs.ray_init.num_cpus") == "ray_init.num_cpus"
    assert forward("trainer.total_epochs") is None
    assert KeyRenames("0.6.1", "0.6.1")("ray_init") is None
    # Two keys that became one go back to the first.
    forward, back = KeyRenames("0.7.0", "0.9.1"), KeyRenames("0.9.1", "0.7.0")
    assert forward("reward_manager.name") == forward("reward_model.reward_manager") == "reward.reward_manager.name"
    assert back("reward.reward_manager.name") == "reward_model.reward_manager"


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


@pytest.mark.parametrize("release", ["0.5.0", "0.6.1"])
@pytest.mark.usefixtures("verl")
def test_upstreams_config_equals_what_upstream_composed_itself(release: str) -> None:
    """The wheel carries the result of Hydra's own composition, for reference."""
    source = source_of(release)
    reference = yaml.safe_load(source.read("verl/trainer/config/_generated_ppo_trainer.yaml"))
    assert set(_keys(ReleaseConfig.of(source).compose().config)) == set(_keys(reference))


def _keys(node: Mapping[str, object], above: str = "") -> list[str]:
    found = []
    for name, value in node.items():
        found.append(above + name)
        if isinstance(value, dict):
            found += _keys(value, f"{above}{name}.")
    return found
