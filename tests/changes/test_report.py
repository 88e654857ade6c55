"""What changed between 0.5.0 and 0.6.1, in both directions, against what is known of these releases."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from extractor.pipeline.generate import Generated, complete, generate
from extractor.pipeline.source import Source
from extractor.usecases.changes import ChangeKind, Changes, OwnerKey, SymbolChange, report
from extractor.usecases.changes.changeset import LostKey
from extractor.usecases.changes.config_keys import (
    MAIN,
    collect_keys,
    compare_project_keys,
    compose_upstream_config,
    find_gone_keys,
    select_below_config,
    select_emitted_config,
)
from extractor.values import releases
from extractor.values.configtree.settings import list_every_setting
from extractor.values.options import Options
from extractor.values.renames import Renames
from tests.releases import source_of

ALGOS = "verl.trainer.ppo.core_algos"


@dataclass(frozen=True)
class Side:
    """One release's project."""

    generated: Generated
    source: Source


@pytest.fixture(scope="module")
def sides(verl_0_5_0: Source, verl_0_6_1: Source) -> dict[str, Side]:
    def side(source: Source) -> Side:
        manifest = releases.load(source.release)
        options = complete(Options("toy", source.release, "hf", "ppo"), manifest)
        return Side(generate(options, source, manifest), source)

    return {source.release: side(source) for source in (verl_0_5_0, verl_0_6_1)}


@pytest.fixture(scope="module")
def compared(sides: dict[str, Side]) -> Callable[..., Changes]:
    def compare(old: str, new: str) -> Changes:
        before, after = sides[old], sides[new]
        return report(before.generated, after.generated, old, new)

    return compare


@pytest.fixture(scope="module")
def forward(compared) -> Changes:
    return compared("0.5.0", "0.6.1")


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
    assert symbol(forward, f"{ALGOS}:agg_loss").computing == ("agg_loss",)
    assert "parameter rollout_is_weights new" in details
    moved = symbol(forward, "verl.workers.config.critic:FSDPCriticConfig")
    assert moved.old.symbol == "verl.trainer.config.config:FSDPCriticConfig"
    assert moved.details[0] == "was verl.trainer.config.config:FSDPCriticConfig"
    names = [(item.place.symbol, item.new is None) for item in forward.symbols]
    assert len(names) == len(set(names))
    assert sum(forward.counts().values()) == len(names) > 100


def test_the_diff_is_of_upstreams_text(forward: Changes, sides: dict[str, Side]) -> None:
    text = symbol(forward, f"{ALGOS}:agg_loss").diff("0.5.0", "0.6.1")
    assert text.startswith("--- verl-0.5.0/verl/trainer/ppo/core_algos.py agg_loss\n")
    old, new = (sides[release].source.read("verl/trainer/ppo/core_algos.py").splitlines() for release in sides)
    for line in text.splitlines()[2:]:
        if line[:1] in "+-":
            assert line[1:] in (old if line[0] == "-" else new)
    assert symbol(forward, f"{ALGOS}:compute_value_loss").diff("0.5.0", "0.6.1") == ""


def test_keys_both_ways(compared, forward: Changes) -> None:
    style, scheduler = (f"actor_rollout_ref.actor.optim.{name}" for name in ("warmup_style", "lr_scheduler_type"))
    assert LostKey(style, scheduler) in forward.project_keys.lost
    assert {scheduler, "actor_rollout_ref.actor.optim.optimizer"} <= set(forward.project_keys.gained)
    back = compared("0.6.1", "0.5.0")
    assert back.counts()[ChangeKind.NEW] == forward.counts()[ChangeKind.GONE]
    assert back.counts()[ChangeKind.UNCHANGED] == forward.counts()[ChangeKind.UNCHANGED]
    assert LostKey(scheduler, style) in back.project_keys.lost


def test_nothing_changes_between_a_release_and_itself(compared) -> None:
    same = compared("0.6.1", "0.6.1")
    assert same.counts()[ChangeKind.UNCHANGED] == len(same.symbols)
    assert (same.project_keys.gained, same.project_keys.lost, same.project_keys.defaults) == ((), (), ())


def test_the_owners_keys(sides: dict[str, Side]) -> None:
    emitted = {release: select_emitted_config(side.generated.tree) for release, side in sides.items()}
    known = [collect_keys(select_below_config(emitted[release])) for release in ("0.5.0", "0.6.1")]
    optim = "actor_rollout_ref.actor.optim"
    mine = {
        "config/preset/mine.yaml": "my_own: 1\ntrainer:\n  total_epochs: 3\ncritic:\n  optim:\n"
        f"    lr_warmup_steps_ratio: ${{{optim}.warmup_style}}\n",
        "config/broken.yaml": "a: [",
    }
    line = emitted["0.5.0"]["config/optim/adamw.yaml"].splitlines().index("warmup_style: constant") + 1
    renames = Renames("0.5.0", "0.6.1")
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
    old, new = (compose_upstream_config(source_of(name)) for name in (before, release))
    for key, renamed in releases.load(release).renamed_keys.items():
        if not renamed.startswith(OWN):
            assert key in old, key
            assert renamed in new, renamed
            inside = [
                item for item in old if item.startswith(f"{key}.") and not item.rpartition(".")[2].startswith("_")
            ]
            assert [item for item in inside if Renames(before, release)(item) not in new] == []
        left = [item for name, item in new.items() if name == key or name.startswith(f"{key}.")]
        assert set(left) <= {"", "null"}, key


def test_renames_go_both_ways_and_through_sections() -> None:
    renaming = [name for name in releases.list_supported() if releases.load(name).renamed_keys]
    assert renaming == ["0.6.0", "0.7.1", "0.8.0"], "those that are tested above"
    assert releases.load("0.4.0").former_keys == {}
    found = releases.load("0.9.1").former_keys
    assert found["actor_rollout_ref.actor.optim.warmup_style"] == "actor_rollout_ref.actor.optim.lr_scheduler_type"
    assert found["reward_model.overlong_buffer"] == "reward.reward_kwargs.overlong_buffer_cfg"
    forward, back = Renames("0.5.0", "0.6.1"), Renames("0.6.1", "0.5.0")
    assert forward("ray_init.num_cpus") == "ray_kwargs.ray_init.num_cpus"
    assert forward("ray_init.timeline_json_file") == "ray_kwargs.timeline_json_file"
    assert back("ray_kwargs.ray_init.num_cpus") == "ray_init.num_cpus"
    assert forward("trainer.total_epochs") is None
    assert Renames("0.6.1", "0.6.1")("ray_init") is None
    # Two keys that became one go back to the first.
    forward, back = Renames("0.7.0", "0.9.1"), Renames("0.9.1", "0.7.0")
    assert forward("reward_manager.name") == forward("reward_model.reward_manager") == "reward.reward_manager.name"
    assert back("reward.reward_manager.name") == "reward_model.reward_manager"


def test_keys_of_a_section_that_went_to_several_places_are_named_one_by_one() -> None:
    old = {"ppo_trainer.yaml": "a:\n  b: 1\n  c: {}\n  d: 1\n"}
    new = {"ppo_trainer.yaml": "x:\n  b: 1\ny:\n  c: {}\n"}
    table = {"a.b": "x.b", "a.c": "y.c", "a.c.deep": "y.c.deep"}
    known = [{item.key for item in list_every_setting(side, MAIN)} for side in (old, new)]
    lost = compare_project_keys(old, new, table.get).lost
    assert [(item.key, item.renamed_to) for item in lost] == [("a.b", "x.b"), ("a.c", "y.c"), ("a.d", None)]
    owner = {"config/ppo_trainer.yaml": "a:\n  b: 1\n  c:\n    deep: 2\n    more: 3\n  d: ${a.b}\n"}
    found = find_gone_keys(owner, known[0], known[1], table.get)
    assert [(item.line, item.key, item.renamed_to, item.reference) for item in found] == [
        (1, "a", None, False),
        (2, "a.b", "x.b", False),
        (3, "a.c", "y.c", False),
        (6, "a.b", "x.b", True),
    ]
