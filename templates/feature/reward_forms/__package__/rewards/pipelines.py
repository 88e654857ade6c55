# vextract:template
"""A classifier of transformers as a reward: the probability of its positive label, or the number it gives."""

from collections.abc import Sequence
from typing import Any

TASKS = ("text-classification", "sentiment-analysis")
TOGETHER = 32


def is_pipeline(value: Any) -> bool:
    """Tell whether this is a `transformers.pipeline`."""
    return all(hasattr(value, name) for name in ("task", "model", "tokenizer", "postprocess"))


class PipelineReward:
    """Scores prompt and response together by a pipeline for text classification.

    With one label the score is the number that the model gives, as it is; with two it is the probability of the second,
    which is the positive one by custom (its `id2label` says what it is called). A conversation is put into the chat
    template of the pipeline's tokenizer, if it has one; else what its messages say stands one below the other.

    Args:
        pipeline: of transformers.

    Raises:
        ValueError: it is for another task, or has more labels than two.
    """

    def __init__(self, pipeline: Any) -> None:
        if pipeline.task not in TASKS:
            raise ValueError(f"the pipeline is for {pipeline.task}, not for {TASKS[0]}")
        labels = dict(pipeline.model.config.id2label)
        if len(labels) > 2:
            names = ", ".join(map(str, labels.values()))
            raise ValueError(f"the pipeline has {len(labels)} labels, {names}: which of them is the reward?")
        self.pipeline = pipeline
        self.label = str(labels[len(labels) - 1])
        self.__name__ = self.label if len(labels) == 2 else "classifier"
        self._function = "softmax" if len(labels) == 2 else "none"

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any]) -> list[float]:
        """Score samples."""
        texts = [self._text(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]
        size = TOGETHER if self.pipeline.tokenizer.pad_token_id is not None else 1
        results = self.pipeline(texts, top_k=None, function_to_apply=self._function, truncation=True, batch_size=size)
        return [next(item["score"] for item in items if item["label"] == self.label) for items in results]

    def _text(self, prompt: Any, completion: Any) -> str:
        if isinstance(prompt, str):
            return prompt + completion
        tokenizer, messages = self.pipeline.tokenizer, [*prompt, *completion]
        if getattr(tokenizer, "chat_template", None):
            return str(tokenizer.apply_chat_template(messages, tokenize=False))
        return "\n".join(str(message["content"]) for message in messages)
