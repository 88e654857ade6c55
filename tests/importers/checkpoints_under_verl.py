"""Run by tests, in two processes on gloo: verl's own checkpoint manager writes a checkpoint, or reads one.

    torchrun ... -m tests.importers.checkpoints_under_verl VERL save|load STRATEGY MODEL CHECKPOINT RESULT

VERL is an unpacked release; STRATEGY fsdp or fsdp2; MODEL what it begins with; CHECKPOINT a global_step_N directory;
RESULT a file for rank 0's weights and state of the optimizer, whole, by the names of the weights.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

from extractor.usecases.verify.driver.sides import import_upstream, prepare_upstream

PROMPTS, BATCH, STEPS = 20, 4, 3


def loader() -> StatefulDataLoader:
    """A data loader as verl's trainer has it."""
    prompts, generator = list(range(PROMPTS)), torch.Generator()
    generator.manual_seed(1)
    sampler = RandomSampler(prompts, generator=generator)
    return StatefulDataLoader(prompts, batch_size=BATCH, drop_last=True, sampler=sampler)


def main(verl: str, action: str, strategy: str, path: str, checkpoint: str, result: str) -> None:
    manager_class = import_upstream(
        "verl.utils.checkpoint.fsdp_checkpoint_manager", prepare_upstream(Path(verl))
    ).FSDPCheckpointManager
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not torch.cuda.is_available():  # verl 0.9.0 asks for an accelerator's random numbers wherever it runs
        vars(sys.modules["verl.utils.checkpoint.checkpoint_manager"])["get_device_name"] = lambda: "cpu"
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_pretrained(path).float()
    names = [name for name, _ in model.named_parameters()]
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("fsdp",))
    layers = [module for module in model.modules() if type(module).__name__ in model._no_split_modules]
    if strategy == "fsdp":
        policy = partial(transformer_auto_wrap_policy, transformer_layer_cls={type(layers[0])})
        model = FSDP(model, auto_wrap_policy=policy, device_mesh=mesh, device_id=torch.device("cpu"))
    else:
        for layer in (*layers, model):
            fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    tokenizer = AutoTokenizer.from_pretrained(path)
    manager = manager_class(model=model, optimizer=optimizer, lr_scheduler=schedule, processing_class=tokenizer)
    folder = Path(checkpoint)
    if action == "load":
        manager.load_checkpoint(str(folder / "actor"))
        batches = loader()
        batches.load_state_dict(torch.load(folder / "data.pt", weights_only=False))
        order = [row for batch in batches for row in batch.tolist()]
    else:
        for step in range(STEPS):
            _train(model, optimizer, schedule, step)
        manager.save_checkpoint(str(folder / "actor"), global_step=STEPS)
        batches = loader()
        iterator = iter(batches)
        for _ in range(STEPS):
            next(iterator)
        if dist.get_rank() == 0:
            torch.save(batches.state_dict(), folder / "data.pt")
        order = [row for batch in iterator for row in batch.tolist()]
    found = {"weights": _weights(model), "order": order, "steps": schedule.last_epoch}
    if strategy == "fsdp2":
        states = optimizer.state_dict()["state"]
        found["states"] = {
            names[index]: {kind: _whole(value) for kind, value in state.items()} for index, state in states.items()
        }
    _train(model, optimizer, schedule, STEPS)  # a state that does not belong to the weights cannot do a step
    found["next"] = _weights(model)
    if dist.get_rank() == 0:
        torch.save(found, result)
    dist.barrier()


def _train(model: Any, optimizer: Any, schedule: Any, step: int) -> None:
    torch.manual_seed(step)
    rows = torch.randint(0, model.config.vocab_size, (4, 7))
    model(input_ids=rows, labels=rows).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()


def _weights(model: Any) -> dict[str, torch.Tensor]:
    if isinstance(model, FSDP):
        with FSDP.summon_full_params(model):
            return {name.replace("_fsdp_wrapped_module.", ""): w.clone() for name, w in model.named_parameters()}
    return {name: _whole(value) for name, value in model.named_parameters()}


def _whole(value: Any) -> Any:
    return (value.full_tensor() if hasattr(value, "full_tensor") else value).detach().clone()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
