"""Components of the reward that some samples lack: what is not reported is no zero, wherever it is read."""

import pytest

from tests.project.running import check_forked
from tests.project.support import TOGETHER, Configuration, Maker
from tests.releases import newest_release

pytestmark = pytest.mark.slow


READERS = """
import numpy as np, torch
from omegaconf import OmegaConf
from toy.errors import ConfigError
from toy.training.batches import add_columns, joined_components, reward_metrics
from toy.training.dynamic_sampling import sample_until_full
from toy.training.validation import pass_at, process_validation_metrics, validation_metrics
from toy.vendored.protocol import DataProto

# Batches of which one has no such component.
infos = joined_components([(2, {"reward": [1, 2]}), (2, {"reward": [3, 4], "acc": [None, 1.0]})])
assert infos == {"reward": [1, 2, 3, 4], "acc": [None, None, None, 1.0]}, infos
assert reward_metrics(infos) == {"reward/reward/mean": 2.5, "reward/acc/mean": 1.0}

# Validation: one source has none, of another some samples do; four samples for each prompt, of which names tell.
def samples(*prompts):
    return [{"data_source": source, "uid": uid, "prompt": uid} for source, uid in prompts for _ in range(4)]
rows = samples(("numbers", "a"), ("dicts", "b"), ("dicts", "c"))
infos = {"reward": [0.5] * 4 + [2.0] * 8,
         "acc": [None] * 4 + [1.0, None, None, None] + [1, 0, True, None],
         "pred": [None] * 4 + ["x", None, None, None] + ["x", "y", "x", "x"]}
found = validation_metrics(rows, infos)
of_acc = {name: value for name, value in found.items() if "/acc/" in name}
assert not any("numbers" in name for name in of_acc), of_acc
mean = {name: value for name, value in found.items() if name.startswith("val-core") and "/mean@" in name}
assert mean == {"val-core/numbers/reward/mean@4": 0.5, "val-core/dicts/acc/mean@4": (1 + 2 / 3) / 2}, mean
assert {name.rpartition("acc/")[2].partition("/")[0] for name in of_acc} == {
    "mean@4", "std@4", "best@2", "worst@2", "maj@2", "pass@2"}, of_acc
assert found["val-aux/dicts/acc/pass@2"] == pass_at(2, [1, 0, 1]) == 1.0
assert "val-core/dicts/acc/pass@4" not in found and "val-aux/numbers/reward/pass@2" not in found

# Where nothing lacks, it is what verl's own function says.
whole = {"reward": [*range(8)], "acc": [1, 0, 0, 0, 1, 1, 0, 0], "pred": [*"xxyyzzzz"]}
rows = samples(("dicts", "b"), ("dicts", "c"))
verls = process_validation_metrics([row["data_source"] for row in rows], [row["uid"] for row in rows], whole)
ours = validation_metrics(rows, whole)
named = {f"{name}/{key}": value for name, keys in verls["dicts"].items() for key, value in keys.items()}
assert {name.split("/", 2)[2]: value for name, value in ours.items() if "pass@" not in name} == named
assert abs(ours["val-aux/dicts/acc/pass@2"] - (1 / 2 + 5 / 6) / 2) < 1e-12  # 1 - C(3,2)/C(4,2), 1 - C(2,2)/C(4,2)
assert ours["val-core/dicts/acc/pass@4"] == 1.0

# Groups that are chosen by a component.
def scored(uids, rewards, acc, source="s"):
    batch = DataProto.from_single_dict({
        "responses": torch.arange(len(uids))[:, None], "uid": np.array([*uids], dtype=object),
        "data_source": np.array([source] * len(uids), dtype=object)})
    extra = {} if acc is None else {"acc": acc}
    return batch, torch.tensor([[0.0, reward] for reward in rewards]), extra
config = OmegaConf.create({"algorithm": {"filter_groups": {"metric": "acc", "max_num_gen_batches": 3}}})
# By those that report it; by the rewards, where none of the prompt does; one value is no difference.
draw = scored("aaabbbcccddd", [0, 1, 2] * 2 + [5, 5, 5] + [0, 1, 2],
              [1, None, 1, 1, None, 0] + [None] * 6)
batch, _, extra = sample_until_full(lambda: draw, config, 2, {})
assert batch.non_tensor_batch["uid"].tolist() == [*"bbbddd"], batch.non_tensor_batch["uid"]
one = scored("aaa", [0, 1, 2], [1, None, None])
two = scored("bb", [0, 1], None)
draws, reported = iter([one, two]), set()
batch, _, extra = sample_until_full(lambda: next(draws), config, 1, {}, reported=reported)
assert batch.non_tensor_batch["uid"].tolist() == [*"bb"] and extra == {}, extra
try:
    sample_until_full(lambda: scored("bb", [0, 1], None, "numbers"), config, 1, {})
except ConfigError as error:
    assert "'acc'" in str(error) and "numbers" in str(error), error
else:
    raise AssertionError("a first batch without the component")

# An estimator that reads components.
batch = scored("ab", [0, 1], None, "numbers")[0]
add_columns(batch, {"acc": [1.0, None], "of_tokens": list(torch.ones(2, 3))})
assert batch.batch["of_tokens"].shape == (2, 3)
"""


@pytest.mark.parametrize("release", newest_release())
def test_every_reader_tells_none_from_zero(made: Maker, release: str) -> None:
    check_forked(made(Configuration(release, "hf", features=TOGETHER)).root, "-c", READERS)
