# vextract:template base/__package__/workers/shared_forward.py - edit freely
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
    """Mixed into the vendored engines, before them; with one process it changes nothing."""

    uneven_passes = False
    _groups: dict[int, Any]

    def part_of(self, batch: DataProto) -> DataProto:
        """Return the rows of a global batch whose passes this process takes part in; every process must call this."""
        part = super().part_of(batch)
        groups = self.__dict__.setdefault("_groups", {})
        if self.sharers > 1 and self.sharers not in groups:
            world = range(dist.get_world_size())
            made = [dist.new_group(list(world[place :: self.sharers])) for place in range(self.sharers)]
            groups[self.sharers] = made[self._ranks.rank % self.sharers]
        return part

    @property
    def _sharing(self) -> bool:
        """Whether this is an update in which several processes share each pass."""
        return self.sharers > 1 and torch.is_grad_enabled()

    def get_data_parallel_size(self) -> int:
        """Return how many passes are computed at once."""
        size: int = super().get_data_parallel_size()  # type: ignore[misc]
        return size // self.sharers if self._sharing else size

    def get_data_parallel_group(self) -> Any:
        """Return the processes of which each computes other passes."""
        return self._groups[self.sharers] if self._sharing else super().get_data_parallel_group()  # type: ignore[misc]

    def prepare_model_inputs(self, micro_batch: Any) -> Any:
        """Return what the model takes: in an update, of the rows that this process forwards."""
        begin(len(micro_batch))
        if self._sharing:
            self._partition = self.partition(micro_batch["input_ids"].offsets().diff().cpu())
            self._part = tu.index_select_tensor_dict(micro_batch, self.own(self._partition))
            micro_batch = self._part
        return super().prepare_model_inputs(micro_batch)  # type: ignore[misc]

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: Any, **settings: Any) -> Any:
        """Return what the model gave, by token: in an update of all rows of the pass."""
        prepare = super().prepare_model_outputs  # type: ignore[misc]
        if not self._sharing:
            return prepare(output, output_args, micro_batch, **settings)
        outputs = prepare(output, output_args, self._part, **settings)
        return {name: self._whole_nested(value, micro_batch) for name, value in outputs.items()}

    def _whole_nested(self, part: torch.Tensor, micro_batch: Any) -> torch.Tensor:
        """From the values at the rows of this process to those at all rows; both nested, a value for each token."""
        length = tu.get_non_tensor_data(micro_batch, "max_seq_len", 0)
        padded = pad_sequence([*part.unbind(), part.values().new_zeros(length)], batch_first=True)[:-1]
        whole = self.whole(padded, self._partition)
        offsets = micro_batch["input_ids"].offsets()
        used = torch.arange(length, device=whole.device) < offsets.diff().unsqueeze(1)
        return torch.nested.nested_tensor_from_jagged(whole[used], offsets)
