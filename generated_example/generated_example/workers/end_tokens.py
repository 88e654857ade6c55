# vextract:template base/__package__/workers/end_tokens.py - edit freely
"""What ends a response: the tokens that tokenizer, model, generation config and chat template name, all of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Stands for the model's turn where the template renders it; no template strips or changes letters.
TURN = "XTURNX"


def end_tokens(tokenizer: Any, model: Any = None, template_kwargs: Mapping[str, Any] | None = None) -> tuple[int, ...]:
    """Return the tokens that end a response; the tokenizer's own comes first.

    Args:
        tokenizer: of the policy.
        model: of transformers, with `config` and `generation_config`; None: what the tokenizer knows is enough.
        template_kwargs: further arguments for the chat template: `data.apply_chat_template_kwargs`.
    """
    config, found = getattr(model, "config", None), [tokenizer.eos_token_id]
    for section in (config, config and config.get_text_config(), getattr(model, "generation_config", None)):
        found += listed(getattr(section, "eos_token_id", None))
    found.append(end_of_turn(tokenizer, template_kwargs))
    return tuple(dict.fromkeys(int(token) for token in found if token is not None and token >= 0))


def listed(eos: int | Iterable[int] | None) -> list[int]:
    """Return as a list what configs have as `eos_token_id`: a token, several, or none."""
    return [] if eos is None else [eos] if isinstance(eos, int) else list(eos)


def end_of_turn(tokenizer: Any, template_kwargs: Mapping[str, Any] | None = None) -> int | None:
    """Return the special token with which the chat template ends the model's turn; None: it has none, or no template.

    That of a conversation's last turn counts: gpt-oss ends earlier ones, and its analysis, by another token.
    """
    if not tokenizer.chat_template:
        return None
    try:
        after = after_turn(tokenizer, [], template_kwargs, generation_prompt=False)
    except Exception:  # of any class: what a template does not render it raises for
        return None
    return ending_of(tokenizer, tokenizer(after or "", add_special_tokens=False)["input_ids"])[0]


def ending_of(tokenizer: Any, tokens: Sequence[int]) -> tuple[int | None, int]:
    """Return the special token that tokens after a turn begin with, and how many they are with the space around it."""
    added = tokenizer.added_tokens_decoder
    space = [not tokenizer.decode([token]).strip() for token in tokens]
    first = next((place for place, is_space in enumerate(space) if not is_space), len(tokens))
    if first == len(tokens) or tokens[first] not in added:
        return None, 0
    return tokens[first], next((place for place in range(first + 1, len(tokens)) if not space[place]), len(tokens))


def after_turn(
    tokenizer: Any, messages: list[Any], template_kwargs: Mapping[str, Any] | None, *, generation_prompt: bool
) -> str | None:
    """Return what the chat template puts after a turn of the model that these messages follow; None: it hides turns."""
    before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": TURN}]
    text: str = tokenizer.apply_chat_template(
        [*before, *messages], add_generation_prompt=generation_prompt, tokenize=False, **(template_kwargs or {})
    )
    _, found, after = text.rpartition(TURN)
    return after if found else None
