"""Managers that score one response each time, further than a project's own tests go."""

import pytest
import torch

own = pytest.importorskip("test_reward_managers", reason="managers of this release score a batch")
batch, manager = own.batch, own.manager  # fixtures


def test_the_data_source_may_stand_in_another_column(manager, batch):
    columns = batch.non_tensor_batch
    columns["kind"] = columns.pop("data_source")
    right = manager("later", "data.reward_fn_key=kind")(batch, return_dict=True)["reward_extra_info"]["right"]
    assert right == [True, False, False]


def test_scores_that_are_given_are_the_reward(manager, batch):
    batch.batch["rm_scores"] = torch.full((3, 4), 0.25)
    assert torch.equal(manager("later")(batch), batch.batch["rm_scores"])
