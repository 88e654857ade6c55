# vextract:template
"""Rules that read a response as text. All of them are plain functions of strings and numbers."""

import re
from collections.abc import Sequence

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?")
HASHES = re.compile(r"####[ \t]*([^\n#]+)")


def last_boxed(text: str) -> str | None:
    r"""Return what the last `\boxed{...}` holds, nested braces included; None if none is there, or it never closes."""
    start = text.rfind("\\boxed{")
    depth = 0
    for index in range(start + len("\\boxed"), len(text)) if start >= 0 else ():
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : index].strip()
    return None


def last_number(text: str) -> str | None:
    """Return the last number in a text, without commas: "so 1,250 in all." -> "1250"; None if there is none."""
    found = NUMBER.findall(text)
    return found[-1].replace(",", "") if found else None


def final_answer(text: str) -> str | None:
    r"""Return the answer that a response ends with: after `####`, or in `\boxed{...}`, or else the last number."""
    hashes = HASHES.findall(text)
    if hashes:
        return str(hashes[-1]).strip()
    return last_boxed(text) or last_number(text)


def tagged(text: str, tag: str) -> str | None:
    """Return what the last `<tag>...</tag>` holds, stripped; None if there is none."""
    found = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return str(found[-1]).strip() if found else None


def tags_share(text: str, tags: Sequence[str]) -> float:
    """Return how much of a form made of tags is there: `<a>...</a>` for each of `tags`, in their order.

    Returns:
        The share of the 2 * len(tags) marks that are found one after another, whatever else is there: a model that
        writes the first one only already gets something, so that there is a gradient to learn from.
    """
    reached, right = 0, 0
    for mark in _marks(tags):
        place = text.find(mark, reached)
        if place < 0:
            break
        right += 1
        reached = place + len(mark)
    return right / (2 * len(tags))


def tags_once(text: str, tags: Sequence[str]) -> float:
    """Return the share of the marks of `tags`, `<a>` and `</a>` each, that stand in a text exactly once."""
    return sum(text.count(mark) == 1 for mark in _marks(tags)) / (2 * len(tags))


def has_form(text: str, tags: Sequence[str]) -> bool:
    """Tell whether a text is `<a>...</a>` for each of `tags`, in order, once each, with nothing around or between."""
    form = r"\s*".join(f"<{tag}>.*</{tag}>" for tag in tags)
    return tags_once(text, tags) == 1.0 and re.fullmatch(rf"\s*{form}\s*", text, re.DOTALL) is not None


def _marks(tags: Sequence[str]) -> list[str]:
    return [mark for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]


def exact_match(given: str, expected: str) -> bool:
    """Tell whether two texts are equal but for case, the space around them and how much of it is between words."""
    return given.casefold().split() == expected.casefold().split()


def length_share(length: float, low: float, high: float, width: float) -> float:
    """Rate a length: 1 between `low` and `high`, falling in a straight line to 0 at `width` outside of them."""
    distance = max(low - length, length - high, 0.0)
    return max(0.0, 1.0 - distance / width) if width > 0 else float(distance == 0)


def repeated_share(text: str, n: int = 4) -> float:
    """Return the share of a text's runs of `n` words that occurred before: 0 without repetition, almost 1 in a loop."""
    words = text.split()
    runs = [tuple(words[index : index + n]) for index in range(len(words) - n + 1)]
    return 1.0 - len(set(runs)) / len(runs) if runs else 0.0
