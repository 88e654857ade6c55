# vextract:template - edit freely
"""Prompts with images: their tokens, where these stand, and what the model sees.

Upstream does this in its agent loops, behind Ray (`AgentLoopWorker._compute_multi_modal_inputs` and
`_compute_position_ids`). Its processors, its dataset and its forward pass are vendored.
"""

import functools
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from ..errors import ConfigError, DataError
from ..vendored.utils.model import extract_multi_modal_inputs
from ..workers.rollout_interface import RolloutError
from .dataloading import EncodedPrompts
from .image_marks import MARK
from .processors import hf_processor

INPUTS, IMAGES = "multi_modal_inputs", "multi_modal_data"  # columns: tensors for the model, images for an engine


# The model


@functools.lru_cache(maxsize=8)
def processor_at(path: str) -> tuple[Any, str]:
    """Return verl's processor of the model at `path`; or None, and why there is none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = hf_processor(path)
    reasons = [str(one.message) for one in caught if "processor" in str(one.message)]
    return found, " ".join(" ".join(reasons).split()) or "its model reads text only"


def processor_of(tokenizer: Any) -> Any:
    """Return the processor of a tokenizer's model, which then has this very tokenizer; None: there is none."""
    processor = processor_at(str(tokenizer.name_or_path))[0]
    if processor is not None:
        processor.tokenizer = tokenizer
    return processor


def with_template(tokenizer: Any) -> Any:
    """Return a tokenizer with the chat template of its model's processor, which knows where images go."""
    processor = processor_of(tokenizer)
    if getattr(processor, "chat_template", None):
        tokenizer.chat_template = processor.chat_template
    return tokenizer


def save_processor(tokenizer: Any, directory: Path) -> None:
    """Save the processor of a tokenizer's model, if there is one."""
    processor = processor_of(tokenizer)
    if processor is not None:
        processor.save_pretrained(directory)


def class_for(auto_class: Any, model_config: Any) -> Any:
    """Return the class of transformers that loads a model which sees, if it is one; otherwise `auto_class`."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    sees = type(model_config) in AutoModelForImageTextToText._model_mapping
    return AutoModelForImageTextToText if sees and auto_class is AutoModelForCausalLM else auto_class


def class_at(auto_class: Any, path: Path) -> Any:
    """Return `class_for` of the model at `path`."""
    from transformers import AutoConfig

    return class_for(auto_class, AutoConfig.from_pretrained(path))


def placeholders(processor: Any) -> list[int]:
    """Return the tokens that stand for images and videos, which no response may have: nothing would be behind them."""
    names = [getattr(processor, f"{kind}_token", None) for kind in ("image", "video")]
    return [int(processor.tokenizer.convert_tokens_to_ids(name)) for name in names if name is not None]


# Rows


def images_of(row: Mapping[str, Any], key: str) -> list[Any]:
    """Return the images of a row as verl's dataset takes them; in the column are one, several or none."""
    found = row.get(key)
    listed = [] if found is None else found if isinstance(found, list | tuple) else [found]
    return [_as_verl_takes(image) for image in listed]


def _as_verl_takes(image: Any) -> Any:
    if isinstance(image, bytes):
        return {"bytes": image}
    if isinstance(image, Mapping):  # as `datasets` stores them: either may be null
        found = {name: value for name, value in image.items() if value is not None}
        path = found.pop("path", None)
        return found if "bytes" in found or "image" in found else path
    return image


def check_images(dataset: Any, chats: Sequence[Any]) -> list[bool]:
    """Check the images of a dataset; returns which rows have some.

    Args:
        dataset: verl's, with `dataframe`, `processor` and the names of its columns.
        chats: the messages of each row.

    Raises:
        DataError: an image is missing, cannot be opened or is more than the prompt has places for; or there are videos.
        ConfigError: there are images, and the model cannot see them.
    """
    table, seen = dataset.dataframe, []
    others = [getattr(dataset, name, None) for name in ("video_key", "audio_key")]
    for number, chat in enumerate(chats):
        row, where = table[number], f"{getattr(table, 'files', '')}row {number}"
        for other in others:
            if row.get(other):
                raise DataError(f"{where}: it has {other}, and a model sees images only here", "leave such rows out")
        images = images_of(row, dataset.image_key)
        seen.append(bool(images))
        if images and dataset.processor is None:
            path = str(dataset.tokenizer.name_or_path)
            raise ConfigError(
                f"{where} has images, and the model at {path} cannot be given any: {processor_at(path)[1]}",
                "name a model that sees, of a family that verl knows, and install torchvision; or drop the column "
                f"{dataset.image_key}",
            )
        places = sum(str(message.get("content")).count(MARK) for message in chat)
        if places != len(images) and dataset.image_key in row:
            raise DataError(
                f"{where}: its prompt has {places} {MARK}, and its column {dataset.image_key} {len(images)} images",
                f"write one {MARK} into the prompt for each image, where it belongs",
            )
        for image in images:
            _check_opens(image, where)
    return seen


def _check_opens(image: Any, where: str) -> None:
    if isinstance(image, Mapping):
        image = BytesIO(image["bytes"]) if "bytes" in image else image.get("image")
    if isinstance(image, Image.Image) or str(image).startswith(("http://", "https://", "data:image")):
        return
    if not isinstance(image, str | Path | BytesIO):
        text = f"{where}: an image is of type {type(image).__name__}"
        raise DataError(text, "give a PIL image, a path, the bytes of a file, or {'bytes': ...} or {'path': ...}")
    try:
        Image.open(image.removeprefix("file://") if isinstance(image, str) else image).close()
    except OSError as error:
        raise DataError(f"{where}: cannot open an image: {error}", "check the path, or the bytes") from error


def image_lengths(dataset: Any, seen: Sequence[bool], lengths: Sequence[int]) -> list[int]:
    """Return how many tokens prompts have, with those that images become.

    Args:
        dataset: see `check_images`.
        seen: which rows have images.
        lengths: of the prompts as texts.
    """
    reader = EncodedImages(dataset, dataset.tokenizer, dataset.config)
    found = zip(seen, lengths, strict=True)
    return [len(reader.encode(dataset[row])[0]) if sees else length for row, (sees, length) in enumerate(found)]


def check_run(config: Any, world_size: int, datasets: Sequence[Any]) -> None:
    """Refuse what has no place for images, before a model is loaded.

    Args:
        config: the whole config.
        world_size: how many processes there are.
        datasets: of prompts.

    Raises:
        ConfigError: a part of the run cannot take images.
    """
    seen = [sees for dataset in datasets for sees in getattr(dataset, "has_images", ())]
    if not any(seen):
        return
    if config.actor_rollout_ref.rollout.mode == "async":
        raise ConfigError(
            "prompts have images, and the rollout server takes text only",
            "set actor_rollout_ref.rollout.mode=sync, with engine vllm or hf",
        )
    if config.algorithm.adv_estimator == "gae":
        text = "prompts have images, and a critic reads text only: transformers has no head for values on such models"
        raise ConfigError(text, "choose another algorithm.adv_estimator, such as grpo")
    if world_size > 1 and not all(seen):
        text = f"{seen.count(False)} of {len(seen)} prompts have no image: processes that share a model would wait"
        raise ConfigError(text, "leave these rows out, or train with one process")


# Prompts as tokens


class EncodedImages(EncodedPrompts):
    """Prompts of which some have images: `EncodedPrompts`, and what the model and an engine need besides.

    Items have `multi_modal_inputs`, what the model takes for the images, and `multi_modal_data`, the images.
    `position_ids` are (4, max_prompt_length) for models with positions in time, height and width: the place in the
    text first, then these three, as upstream has them.
    """

    def __init__(self, dataset: Any, tokenizer: Any, data: Any) -> None:
        super().__init__(dataset, tokenizer, data)
        self._processor = processor_of(tokenizer)
        self._settings = dict(data.get("mm_processor_kwargs") or {})
        own = getattr(getattr(self._processor, "image_processor", None), "patch_size", 14)
        self._patch_size = data.get("image_patch_size") or own

    def read(self, index: int) -> dict[str, Any]:
        """Return an item, encoded if it has images."""
        item = super().read(index)
        if self._processor is None or "raw_prompt" not in item or "input_ids" in item:
            return item
        if not _has_images(item["raw_prompt"]):
            return item
        try:
            prompt, positions, inputs, images = self.encode(item)
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"prompt {index}: its images cannot be used: {error}", "check the row") from error
        most, length = self._limits["max_length"], len(prompt)
        if length > most:  # it cannot be cut: every token of an image belongs to a part of it
            raise DataError(
                f"prompt {index} has {length} tokens with its images, more than data.max_prompt_length={most}",
                f"raise it, or have smaller images: data.mm_processor_kwargs, such as {{max_pixels: {64 * 28 * 28}}}",
            )
        if not self._keeps_chat:
            item.pop("raw_prompt")
        padded = torch.nn.functional.pad(positions, (most - length, 0))
        collapsed = collapse(prompt, placeholders(self._processor))
        return {
            **item,
            **self._padded([prompt])[0],
            "position_ids": padded,
            "raw_prompt_ids": collapsed,
            INPUTS: inputs,
            IMAGES: {"image": images},
        }

    def encode(self, item: Mapping[str, Any]) -> tuple[list[int], torch.Tensor, dict[str, Any], list[Any]]:
        """Return the tokens of a prompt, their positions, what the model takes for its images, and the images."""
        from qwen_vl_utils import process_vision_info

        messages = item["raw_prompt"]
        given = {"add_generation_prompt": True, "tokenize": False, **self._template}
        text = self._tokenizer.apply_chat_template(messages, **given)
        images = process_vision_info(messages, image_patch_size=self._patch_size)[0]
        found = dict(self._processor(text=[text], images=images, return_tensors="pt", **self._settings))
        input_ids = found.pop("input_ids")
        positions = self._positions(input_ids, found)
        left_out = ("attention_mask", "mm_token_type_ids")  # the latter says the same as the positions
        inputs = {name: value for name, value in found.items() if name not in left_out}
        return input_ids[0].tolist(), positions, inputs, images

    def _positions(self, input_ids: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Return the positions of a prompt's tokens, (1, length) int64, as upstream's agent loop has them."""
        places = torch.arange(input_ids.shape[-1])
        if not hasattr(self._processor, "get_rope_index"):
            return places
        given = {name: inputs.get(name) for name in ("image_grid_thw", "video_grid_thw")}
        if "mm_token_type_ids" in inputs:
            given["mm_token_type_ids"] = inputs["mm_token_type_ids"]
        mask = torch.ones_like(input_ids)
        found, _ = self._processor.get_rope_index(input_ids=input_ids, attention_mask=mask, **given)
        return torch.cat([places[None], found[:, 0]])

    def _padded(self, prompts: Sequence[list[int]]) -> list[dict[str, Any]]:
        """Return what prompts without images are as tokens."""
        found = super()._padded(prompts)
        for item in found if self._processor is not None else ():
            if hasattr(self._processor, "get_rope_index"):
                item["position_ids"] = item["position_ids"].expand(4, -1).clone()
            item.update({INPUTS: {}, IMAGES: {}})
        return found


def _has_images(messages: Sequence[Mapping[str, Any]]) -> bool:
    contents = [message["content"] for message in messages if isinstance(message["content"], list)]
    return any(part.get("type") == "image" for parts in contents for part in parts)


def collapse(prompt: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Return a prompt with one token for each image, which an engine replaces by as many as the image becomes."""
    pairs = zip(prompt, [None, *prompt], strict=False)
    return [token for token, before in pairs if token not in tokens or token != before]


# Batches


def response_positions(positions: torch.Tensor, length: int) -> torch.Tensor:
    """Return positions, (bs, prompt_length) or (bs, 4, prompt_length), followed by those of `length` more tokens."""
    return torch.cat([positions, positions[..., -1:] + torch.arange(1, length + 1)], dim=-1)


def seen_on(columns: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the columns of a batch, with what models see on the device: once for all responses to a prompt."""
    if INPUTS not in columns:
        return dict(columns)
    moved: dict[int, dict[str, Any]] = {}
    found: np.ndarray = np.empty(len(columns[INPUTS]), dtype=object)
    for row, inputs in enumerate(columns[INPUTS]):
        if id(inputs) not in moved:
            moved[id(inputs)] = {name: value.to(device) for name, value in inputs.items()}
        found[row] = moved[id(inputs)]
    return {**columns, INPUTS: found}


def without_images(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a batch without the images themselves, which only an engine needs."""
    return {name: value for name, value in columns.items() if name != IMAGES}


def generation_inputs(
    model: Any, columns: Mapping[str, Any], input_ids: torch.Tensor, processor: Any
) -> dict[str, Any]:
    """Return what transformers' `generate` takes besides tokens, for prompts of which some have images.

    Args:
        model: generates.
        columns: of the batch.
        input_ids: (bs, prompt_length) int64.
        processor: of the model.
    """
    for part in model.modules():
        if hasattr(part, "rope_deltas"):
            part.rope_deltas = None  # of the prompts before
    if INPUTS not in columns:
        return {}
    rows = seen_on(columns, input_ids.device)[INPUTS]
    found: dict[str, Any] = extract_multi_modal_inputs(list(rows))
    if found and "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        kinds = torch.zeros_like(input_ids)
        for kind, token in enumerate(placeholders(processor), start=1):
            kinds[input_ids == token] = kind
        found["mm_token_type_ids"] = kinds
    return found


def engine_inputs(columns: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what vLLM takes for each prompt: its tokens, with one for each image, and the images.

    Args:
        columns: of the batch, with `raw_prompt_ids`.
        settings: the config's `data.mm_processor_kwargs`.
    """
    for row, tokens in enumerate(columns["raw_prompt_ids"]):
        images = columns[IMAGES][row] if IMAGES in columns else {}
        given = {IMAGES: images, "mm_processor_kwargs": dict(settings)} if images else {}
        yield {"prompt_token_ids": list(tokens), **given}


def check_read(outputs: Sequence[Any], prompts: Any) -> None:
    """Check that vLLM has read the prompts as the trainer does: an image may become more tokens there, or fewer.

    Raises:
        RolloutError: it has not.
    """
    masks = prompts.batch["attention_mask"].bool().cpu()
    for output, tokens, mask in zip(outputs, prompts.batch["input_ids"].cpu(), masks, strict=True):
        if list(output.prompt_token_ids) != tokens[mask].tolist():
            read, own = len(output.prompt_token_ids), int(mask.sum())
            raise RolloutError(
                f"vLLM has read a prompt with images as {read} tokens, which has {own} for the trainer",
                "vLLM reads this family otherwise: `vextract upgrade --engine hf` rolls out with transformers",
            )
