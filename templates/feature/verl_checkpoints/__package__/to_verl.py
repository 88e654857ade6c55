# vextract:template - edit freely
"""Write a checkpoint as verl's FSDP workers write theirs, for a run of verl that goes on from it.

    python -m PACKAGE.to_verl checkpoints/PROJECT/RUN/global_step_20 OUT --processes 8
    python -m PACKAGE.to_verl checkpoints/PROJECT/RUN OUT --processes 8             the run's last one

OUT/global_step_20 then has weights, the optimizer's state, the course of the learning rate, random states and the place
in the data. The run of verl has `actor.strategy=fsdp2` (and `critic.strategy`), as `vextract export` writes it,
`trainer.default_local_dir=OUT`, and so many GPUs. Shares of tensors are pickled by torch, whose versions do not read
each other's: run this where verl runs, or with the same version of torch.
"""

import argparse
import copy
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from .data.verl_place import TAKEN
from .errors import ConfigError, report_error
from .export import find_checkpoint
from .output import say
from .run.checkpoint_files import read_state, sync_tree, write_text
from .run.shards import read_whole
from .run.share_names import OPTIMIZER, is_sharded
from .run.verl_shards import EXTRA, LATEST, MODEL
from .run.verl_shards import OPTIMIZER as OPTIMIZER_SHARES
from .switches import SHARDED_CHECKPOINTS
from .workers.models import load_pretrained
from .workers.trained_model import FILE

MESH = ("fsdp",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with these command-line arguments; returns the exit code: 0 done, 2 the arguments are at fault."""
    description = "Write a checkpoint as verl's FSDP workers do, for a run of verl with strategy fsdp2."
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.to_verl", description=description)
    parser.add_argument("checkpoint", type=Path, help="a global_step_N directory, or a run's directory")
    parser.add_argument("out", type=Path, help="the run's directory of verl: OUT/global_step_N is written")
    parser.add_argument("--processes", type=int, required=True, metavar="N", help="the GPUs that verl will have")
    parser.add_argument("--device", default="cuda", help="of verl's processes: %(default)s, npu, cpu")
    chosen = parser.parse_args(arguments)
    try:
        found = find_checkpoint(chosen.checkpoint)
        written = to_verl(found, chosen.out, processes=chosen.processes, device=chosen.device)
    except Exception as error:
        return report_error(error)
    say(f"{found} -> {written}")
    return 0


def to_verl(checkpoint: Path, out: Path, *, processes: int, device: str = "cuda") -> Path:
    """Write a complete checkpoint of this project as one of verl's.

    Args:
        checkpoint: a global_step_N directory.
        out: the directory of a run of verl's; its `global_step_N` appears whole or not at all.
        processes: that will read it.
        device: what they compute on.

    Returns:
        The new checkpoint.

    Raises:
        ConfigError: it is there already, or holds an adapter.
    """
    path = out / checkpoint.name
    if path.exists():
        raise ConfigError(f"{path} is there already", "name another directory, or remove this one")
    if processes < 1:
        raise ConfigError(f"--processes is {processes}", "name the number of GPUs that verl will have")
    roles = [checkpoint / role for role in ("actor", "critic") if (checkpoint / role).is_dir()]
    if any((role / "adapter_config.json").is_file() for role in roles):
        raise ConfigError(
            f"{checkpoint} holds a LoRA adapter, and verl's workers keep it with the model's own weights",
            f"start verl anew with actor_rollout_ref.model.lora_adapter_path={checkpoint.absolute()}/actor",
        )
    scratch = path.with_name(f".{path.name}.writing")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        trainer = read_state(checkpoint / "trainer.pt")
        for role in roles:
            _write_model(role, scratch / role.name, trainer["random"], processes, device)
        place = read_state(checkpoint / "data.pt")
        if TAKEN in place:
            print("note: verl begins the data anew: no step was trained here", file=sys.stderr)
        else:
            _save(place, scratch / "data.pt")
        sync_tree(scratch)
        scratch.rename(path)
        write_text(out / LATEST, checkpoint.name.removeprefix("global_step_"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def _write_model(source: Path, target: Path, random_states: list[Any], processes: int, device: str) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForTokenClassification, AutoTokenizer

    auto_class: Any = AutoModelForTokenClassification if source.name == "critic" else AutoModelForCausalLM
    model = load_pretrained(auto_class, source, torch_dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(source)
    files = target / "huggingface"
    files.mkdir(parents=True)
    model.config.save_pretrained(files)
    if model.can_generate():
        model.generation_config.save_pretrained(files)
    tokenizer.save_pretrained(files)
    weights, state = model.state_dict(), read_state(source / FILE)
    if SHARDED_CHECKPOINTS and is_sharded(source / OPTIMIZER):
        for name, value in read_whole(source / OPTIMIZER).items():
            index, _, kind = name.partition(".")
            state["optimizer"]["state"][int(index)][kind] = value
    for rank in range(processes):
        with _as_rank(rank, processes):
            mesh = init_device_mesh(device, (processes,), mesh_dim_names=MESH)
            shared = {name: _share(value, mesh, rank) for name, value in weights.items()}
            _save(shared, target / _file_of(MODEL, rank, processes))
            optimizer = copy.copy(state["optimizer"])
            optimizer["state"] = {
                index: {kind: _share(value, mesh, rank) for kind, value in values.items()}
                for index, values in optimizer["state"].items()
            }
            _save(optimizer, target / _file_of(OPTIMIZER_SHARES, rank, processes))
        own = random_states[min(rank, len(random_states) - 1)] if random_states else None
        extra = {"lr_scheduler": state["scheduler"], **({"rng": _random(own)} if own else {})}
        _save(extra, target / _file_of(EXTRA, rank, processes))
    note = f'{{"FSDP_version": 2, "world_size": {processes}}}\n'
    (target / "fsdp_config.json").write_text(note, encoding="utf-8")


def _share(value: Any, mesh: DeviceMesh, rank: int) -> Any:
    """Return a rank's share of a tensor, cut along its first axis as FSDP2 does; a number stays as it is."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    pieces = list(value.chunk(mesh.size(), dim=0))
    own = pieces[rank] if rank < len(pieces) else value[:0]
    spec = DTensorSpec(mesh, (Shard(0),), tensor_meta=TensorMeta(value.shape, value.stride(), value.dtype))
    # A copy, since torch saves all of what a view is of; on the CPU, whatever the mesh is of.
    return DTensor(own.clone(), spec, requires_grad=False)  # type: ignore[call-arg]


def _file_of(kind: str, rank: int, processes: int) -> str:
    return f"{kind}_world_size_{processes}_rank_{rank}.pt"


def _save(state: Any, file: Path) -> None:
    with file.open("wb") as opened:  # opened here, or torch would not say what the disk has refused
        torch.save(state, opened)


@contextmanager
def _as_rank(rank: int, processes: int) -> Iterator[None]:
    """Be one of so many processes, none of which is there: nothing is sent."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=processes)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _random(state: dict[str, Any]) -> dict[str, Any]:
    """Return random states by the names that verl has for them."""
    names = {"torch": "cpu", "python": "random"}
    return {names.get(name, name): value for name, value in state.items()}


if __name__ == "__main__":
    sys.exit(main())
