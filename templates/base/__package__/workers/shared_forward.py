# vextract:template - edit freely
"""How a process forwards its part of a pass that it shares with others."""

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.utils.rnn import pad_sequence

from ..tracking.timing import begin
from ..vendored.protocol import DataProto
from ..vendored.utils import tensordict_utils as tu
from .passes import SharedPasses


class SharedForward(SharedPasses):
    """Stands between a vendored engine and its model; with one process it changes nothing.

    Args:
        engine: the vendored engine; what it gives to its model, and takes from it, goes through here from now on.
        config: the section of the model.
    """

    def __init__(self, engine: Any, config: Any) -> None:
        super().__init__(config, uneven=False)
        self._groups: dict[int, Any] = {}
        self._all_size, self._all_group = engine.get_data_parallel_size, engine.get_data_parallel_group
        self._inputs, self._outputs = engine.prepare_model_inputs, engine.prepare_model_outputs
        engine.get_data_parallel_size, engine.get_data_parallel_group = self.size, self.group
        engine.prepare_model_inputs, engine.prepare_model_outputs = self.inputs, self.outputs

    def part_of(self, batch: DataProto) -> DataProto:
        """Return the rows of a global batch whose passes this process takes part in; every process must call this."""
        part = super().part_of(batch)
        sharers = self.sharers
        if sharers > 1 and sharers not in self._groups:
            world = range(dist.get_world_size())
            made = [dist.new_group(list(world[place::sharers])) for place in range(sharers)]
            self._groups[sharers] = made[self.ranks.rank % sharers]
        return part

    @property
    def _sharing(self) -> bool:
        """Tell whether this is an update in which several processes share each pass."""
        return self.sharers > 1 and torch.is_grad_enabled()

    def size(self) -> int:
        """Return how many passes are computed at once."""
        size: int = self._all_size()
        return size // self.sharers if self._sharing else size

    def group(self) -> Any:
        """Return the processes of which each computes other passes."""
        return self._groups[self.sharers] if self._sharing else self._all_group()

    def inputs(self, micro_batch: Any) -> Any:
        """Return what the model takes: in an update, of the rows that this process forwards."""
        begin(len(micro_batch))
        if torch.is_grad_enabled():
            self.begin_pass()
        if self._sharing:
            self._partition = self.partition(micro_batch["input_ids"].offsets().diff().cpu())
            self._part = tu.index_select_tensor_dict(micro_batch, self.own(self._partition))
            micro_batch = self._part
        return self._inputs(micro_batch)

    def outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> dict[str, torch.Tensor]:
        """Return what the model gave, by token: in an update of all rows of the pass."""
        if not self._sharing:
            whole: dict[str, torch.Tensor] = self._outputs(output, output_args, micro_batch, **settings)
            return whole
        outputs = self._outputs(output, output_args, self._part, **settings)
        return {name: self._whole_nested(value, micro_batch) for name, value in outputs.items()}

    def _whole_nested(self, part: torch.Tensor, micro_batch: Any) -> torch.Tensor:
        """Gather the values at all rows from those at this process's; both nested, a value for each token."""
        length = tu.get_non_tensor_data(micro_batch, "max_seq_len", 0)
        padded = pad_sequence([*part.unbind(), part.values().new_zeros(length)], batch_first=True)[:-1]
        whole = self.whole(padded, self._partition)
        offsets = micro_batch["input_ids"].offsets()
        used = torch.arange(length, device=whole.device) < offsets.diff().unsqueeze(1)
        return torch.nested.nested_tensor_from_jagged(whole[used], offsets)
