# vextract:template base/__package__/data/dataloading.py - edit freely
"""Prompts as tokens, and batches of them in an order that a resumed run continues exactly."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler, SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

from ..errors import DataError
from ..hooks import HookError, running_hook
from ..rewards.scoring import source_of
from ..run.distributed import Ranks
from ..vendored.data.rl_dataset import collate_fn
from ..vendored.utils.model import compute_position_id_with_mask
from ..vendored.utils.torch_functional import postprocess_data


def encoded(dataset: Dataset, tokenizer: Any, data: Any) -> Dataset:
    """Return a dataset of the same prompts, as tokens; hooks use it."""
    return EncodedPrompts(dataset, tokenizer, data)


class EncodedPrompts(Dataset):
    """A dataset with the prompts of another one, left-padded: input_ids, attention_mask, position_ids, raw_prompt_ids.

    What else one asks of it, the other dataset answers. Up to 0.6.1 verl's encodes its prompts itself; since then it
    gives messages.

    Args:
        dataset: of prompts, as messages in `raw_prompt`; what it has encoded itself stays as it is.
        tokenizer: of the policy.
        data: the config's `data` section.
    """

    def __init__(self, dataset: Any, tokenizer: Any, data: Any) -> None:
        self.dataset = dataset
        self._tokenizer = tokenizer
        # Read once: reading a config takes longer than encoding a short prompt.
        self._template = dict(data.get("apply_chat_template_kwargs") or {})
        self._keeps_chat, self._keeps_text = data.get("return_raw_chat"), data.get("return_full_prompt")
        self._limits = {"max_length": data.max_prompt_length, "truncation": data.get("truncation", "error")}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the items of a batch: one call of the tokenizer takes a fraction of one for each."""
        items = [dict(self.dataset[index]) for index in indices]
        pairs = zip(indices, items, strict=True)
        asked = [(index, item) for index, item in pairs if "raw_prompt" in item and "input_ids" not in item]
        for item in items:
            item.pop("dummy_tensor", None)
        tokenizer, texts = self._tokenizer, []
        for _, item in asked:
            messages = item["raw_prompt"] if self._keeps_chat else item.pop("raw_prompt")
            given = {"add_generation_prompt": True, "tokenize": False, **self._template}
            texts.append(tokenizer.apply_chat_template(messages, **given))
            if self._keeps_text:
                item["full_prompts"] = texts[-1]
        tokenized = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        prompts = [self._cut(index, tokens) for (index, _), tokens in zip(asked, tokenized, strict=True)]
        for (_, item), padded in zip(asked, self._padded(prompts), strict=True):
            item.update(padded)
        return items

    def _padded(self, prompts: Sequence[list[int]]) -> list[dict[str, Any]]:
        """Return what prompts are as tokens, each tensor of (max_prompt_length,), padded on the left."""
        most = self._limits["max_length"]
        input_ids = torch.full((len(prompts), most), self._tokenizer.pad_token_id)
        attention_mask = torch.zeros_like(input_ids)
        for row, tokens in enumerate(prompts):
            input_ids[row, most - len(tokens) :] = torch.tensor(tokens)
            attention_mask[row, most - len(tokens) :] = 1
        columns = (input_ids, attention_mask, compute_position_id_with_mask(attention_mask), prompts)
        names = ("input_ids", "attention_mask", "position_ids", "raw_prompt_ids")
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _cut(self, index: int, prompt: list[int]) -> list[int]:
        """Return the tokens of a prompt, at most max_prompt_length, as upstream cuts them."""
        most = self._limits["max_length"]
        if len(prompt) <= most:
            return prompt
        if self._limits["truncation"] == "error":
            raise DataError(
                f"prompt {index} has {len(prompt)} tokens, more than data.max_prompt_length={most}",
                "set data.truncation=left, or a larger data.max_prompt_length",
            )
        tokens = torch.tensor([prompt])
        cut, _ = postprocess_data(tokens, tokens, pad_token_id=self._tokenizer.pad_token_id, **self._limits)
        return list(cut[0].tolist())


class SharedLoader:
    """A data loader of rank 0, whose batches every process gets.

    So all have the same batches, whatever a dataset draws or reads; and only rank 0 needs the data on its disk.

    Args:
        loader: on rank 0.
        length: how many batches it has.
        ranks: this process among its peers. Every one must iterate; only rank 0 has a dataset and a state.

    Attributes:
        generator: of the random numbers that an epoch starts with.
    """

    def __init__(self, loader: StatefulDataLoader | None, length: int, ranks: Ranks) -> None:
        self.loader = loader
        self.length = length
        self.ranks = ranks
        self.generator = torch.Generator() if loader is None else loader.generator

    @property
    def dataset(self) -> Any:
        """Return the dataset, on rank 0; None on the other processes."""
        return None if self.loader is None else self.loader.dataset

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        batches = iter(self.loader if self.loader is not None else ())
        while (batch := self.ranks.on_driver(lambda: self._next_of(batches))) is not None:
            yield batch

    def _next_of(self, batches: Iterator[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the next batch; None: there is no more. What a dataset raises, or mixes up, becomes a HookError."""
        with running_hook("the dataset", type(self.dataset)):
            batch = next(batches, None)
        lengths = {name: len(column) for name, column in (batch or {}).items()}
        most = max(lengths.values(), default=0)
        for name, length in lengths.items():
            if length < most:
                message = f"{length} of {most} items of the dataset have {name!r}: all must, or none"
                raise HookError(message, source_of(type(self.dataset)))
        return batch

    def state_dict(self) -> dict[str, Any] | None:
        """Return where it is; None on other processes than rank 0."""
        return None if self.loader is None else self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was called."""
        if self.loader is None:
            return
        self.loader.load_state_dict(state)


def build_dataloaders(
    config: Any,
    ranks: Ranks,
    build_datasets: Callable[[], tuple[Dataset, Dataset]],
    collate: Callable[[Any], Any] = collate_fn,
) -> tuple[SharedLoader, SharedLoader]:
    """Return the training and the validation data loader.

    Every process gets the whole global batch: prompts are small, and each then takes its share of them.

    Args:
        config: the whole config; `config.data` is read.
        ranks: this process among its peers.
        build_datasets: gives datasets of prompts for training and validation; called on rank 0. Training batches have
            data.train_batch_size prompts, an incomplete last one is left out; validation batches data.val_batch_size,
            or all.
        collate: puts the items of a batch together.
    """
    loaders: list[StatefulDataLoader | None] = [None, None]

    def build() -> list[int]:
        loaders[:] = build_loaders(config.data, *build_datasets(), collate)
        return [len(loader) for loader in loaders if loader is not None]

    lengths = ranks.on_driver(build)
    train_loader, val_loader = map(SharedLoader, loaders, lengths, [ranks, ranks])
    return train_loader, val_loader


def build_loaders(
    data: Any, train_dataset: Any, val_dataset: Any, collate: Callable[[Any], Any] = collate_fn
) -> tuple[StatefulDataLoader, StatefulDataLoader]:
    """Return the loaders of one process, as `build_dataloaders` says; `data` is the config's section of that name."""
    order = torch.Generator()
    if data.shuffle and data.seed is not None:
        order.manual_seed(data.seed)
    # torchdata's, as upstream does: torch's own has no state, and a resumed run would repeat the first epoch's order.
    shuffled: Sampler = RandomSampler(train_dataset, generator=order)
    # Generators of their own: starting an epoch must not draw from the global one, or a resumed run would differ.
    more = {"num_workers": data.dataloader_num_workers, "collate_fn": collate}
    train_loader = StatefulDataLoader(
        train_dataset,
        batch_size=data.train_batch_size,
        sampler=shuffled if data.shuffle else SequentialSampler(train_dataset),
        drop_last=True,
        generator=torch.Generator(),
        **more,
    )
    val_loader = StatefulDataLoader(
        val_dataset,
        batch_size=data.val_batch_size or len(val_dataset),
        shuffle=data.validation_shuffle,
        generator=torch.Generator(),
        **more,
    )
    return train_loader, val_loader
