"""Parse command or list overrides with Hydra's parser, allowing unknown parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from extractor.importers.runs.bash import refuse_length
from extractor.importers.runs.placeholders import find_unknowns, make_readable, replace_unknowns
from extractor.values import limits
from extractor.values.configtree import BadOverride, Override, parse_override
from extractor.values.errors import UsageError

# What a reader of the script is to put in: `<your path>`, `{your_path}`.
_PLACEHOLDER = re.compile(r"<[^<>]+>|\{\w+\}")
_QUOTES = "'\""
_KEY = r"\+{0,2}[A-Za-z_][\w.]*"


def is_override(word: str) -> bool:
    """Tell whether a word sets, adds or deletes a setting."""
    return re.match(r"[\"']?(?:~[\w.@/]+$|(?:\+\+|\+|~)?[A-Za-z_][\w.@/]*=)", word) is not None


def read(words: Sequence[str], where: str) -> tuple[Override, ...]:
    """Parse overrides.

    Args:
        words: As they are written; a part of one may be unknown.
        where: They stand, for messages.

    Raises:
        UsageError: Hydra would refuse one, or there are too many.
    """
    if len(words) > limits.MAX_OVERRIDES:
        raise refuse_length(where, f"more than {limits.MAX_OVERRIDES:,} overrides")
    if sum(map(len, words)) > limits.MAX_OVERRIDES_TEXT:
        raise refuse_length(where, f"overrides of more than {limits.MAX_OVERRIDES_TEXT:,} characters")
    return tuple(_parse_override(word, where) for word in words)


def _parse_override(word: str, where: str) -> Override:
    text, back = replace_unknowns(word)
    try:
        found = parse_override(text)
    except BadOverride as error:
        key, _, value = text.partition("=")
        if re.fullmatch(_KEY, key) and (_PLACEHOLDER.search(value) or find_unknowns(word)):
            return Override(key[: len(key) - len(key.lstrip("+"))], key.lstrip("+"), back(value.strip(_QUOTES)), word)
        said = make_readable(back(str(error)))
        raise UsageError(f"{where}: {said}", hint="Hydra would refuse it as well: correct it") from None
    return Override(found.mark, back(found.key), back(found.value), word)
