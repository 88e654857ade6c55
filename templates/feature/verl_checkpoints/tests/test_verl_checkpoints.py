# vextract:template - edit freely
"""A checkpoint as verl's FSDP workers write it, and back; and what is refused of one."""

import os
import shutil
from collections import deque
from types import SimpleNamespace

import pytest
import torch
from conftest import Alone
from safetensors.torch import load_file

from __package__.data.dataloading import SharedLoader, build_loaders
from __package__.data.verl_place import begin_at
from __package__.errors import ConfigError
from __package__.run.verl_shards import Record, is_of_verl, read
from __package__.to_verl import to_verl
from __package__.tracking.run_tracker import read_rows

STEPS = "trainer.total_training_steps"


def state_of(checkpoint):
    return torch.load(checkpoint / "actor" / "optimizer.pt", weights_only=True)


@pytest.fixture
def run(train):
    return train("trainer.save_freq=1", f"{STEPS}=1")


def test_weights_and_optimizer_come_back_from_verl(run, train, tmp_path):
    there = to_verl(run / "global_step_1", tmp_path / "verl", processes=3)
    assert len(list((there / "actor").glob("*.pt"))) == 3 * 3
    directory = train(f"local.checkpoint.begin_from={there}", "trainer.save_freq=10", f"{STEPS}=2")
    before, after = run / "global_step_1", directory / "global_step_1"
    ours, theirs = (load_file(checkpoint / "actor" / "model.safetensors") for checkpoint in (before, after))
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    states = [state_of(checkpoint) for checkpoint in (before, after)]
    assert states[0]["scheduler"]["last_epoch"] == states[1]["scheduler"]["last_epoch"] == 1
    for index, values in states[0]["optimizer"]["state"].items():
        assert all(torch.equal(value, states[1]["optimizer"]["state"][index][name]) for name, value in values.items())
    assert [row["step"] for row in read_rows(directory / "metrics.jsonl")] == [2]
    # With a checkpoint of its own, the run goes on from that.
    train(f"local.checkpoint.begin_from={there}", f"{STEPS}=3", directory=directory)
    assert [row["step"] for row in read_rows(directory / "metrics.jsonl")] == [2, 3]


def test_a_run_may_go_on_in_the_directory_of_verls(run, train, tmp_path):
    directory = to_verl(run / "global_step_1", tmp_path / "verl", processes=2).parent
    train(f"{STEPS}=2", directory=directory)
    assert is_of_verl(directory / "earlier_1" / "global_step_1")
    assert not is_of_verl(directory / "global_step_1")


def test_a_missing_share_is_named(run, train, tmp_path, capsys):
    there = to_verl(run / "global_step_1", tmp_path / "verl", processes=2)
    (there / "actor" / "model_world_size_2_rank_1.pt").unlink()
    train("trainer.resume_mode=resume_path", f"trainer.resume_from_path={there}", code=2)
    assert "lacks model_world_size_2_rank_1.pt" in capsys.readouterr().err


def test_without_the_optimizers_state_it_begins_anew(run, train, tmp_path, capsys):
    there = to_verl(run / "global_step_1", tmp_path / "verl", processes=2)
    for file in (there / "actor").glob("optim_*"):
        file.unlink()
    train("trainer.resume_mode=resume_path", f"trainer.resume_from_path={there}", f"{STEPS}=2")
    assert "the optimizer of actor begins anew: the run saved none" in capsys.readouterr().err


def test_the_shares_of_other_weights_are_refused(run, train, tmp_path, capsys):
    there = to_verl(run / "global_step_1", tmp_path / "verl", processes=1)
    file = there / "actor" / "model_world_size_1_rank_0.pt"
    weights = torch.load(file, weights_only=False)
    weights["elsewhere.weight"] = weights.pop("model.norm.weight")
    torch.save(weights, file)
    train("trainer.resume_mode=resume_path", f"trainer.resume_from_path={there}", code=2)
    assert "elsewhere.weight, model.norm.weight" in capsys.readouterr().err


def test_no_code_of_a_file_is_run(tmp_path):
    class Calls:
        def __init__(self, function, *arguments):
            self.call = function, arguments

        def __reduce__(self):
            return self.call

    torch.save({"weight": Calls(os.mkdir, str(tmp_path / "made"))}, tmp_path / "elsewhere.pt")
    with pytest.raises(ConfigError, match="mkdir"):
        read(tmp_path / "elsewhere.pt")
    torch.save({"weight": Calls(torch.distributed.init_process_group, "nowhere")}, tmp_path / "distributed.pt")
    assert isinstance(read(tmp_path / "distributed.pt")["weight"], Record)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("has_state", [True, False])
def test_the_order_of_prompts_goes_on(has_state):
    names = {"train_batch_size": 2, "gen_batch_size": None, "val_batch_size": None, "validation_shuffle": False}
    data = SimpleNamespace(**names, shuffle=True, seed=3, dataloader_num_workers=0)
    rows = [{"number": torch.tensor(number)} for number in range(10)]

    def made():
        return SharedLoader(build_loaders(data, rows, rows)[0], 5, Alone())

    def numbers(loader):
        return [batch["number"].tolist() for batch in loader]

    whole = made()
    epochs = [numbers(whole) for _ in range(3)]
    order = made().loader.sampler
    list(order)
    drawn = iter(order)
    deque((next(drawn) for _ in range(4)), maxlen=0)
    resumed = made()
    begin_at(resumed, {"steps": 7, "batches": 2, "indices": drawn.state_dict() if has_state else None})
    assert [numbers(resumed), numbers(resumed)] == [epochs[1][2:], epochs[2]]


def test_what_is_there_is_not_written_over(run, tmp_path):
    to_verl(run / "global_step_1", tmp_path, processes=1)
    with pytest.raises(ConfigError, match="is there already"):
        to_verl(run / "global_step_1", tmp_path, processes=1)
    shutil.rmtree(tmp_path / "global_step_1")
    with pytest.raises(ConfigError, match="--processes is 0"):
        to_verl(run / "global_step_1", tmp_path, processes=0)
