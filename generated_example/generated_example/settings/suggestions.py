# vextract:template base/__package__/settings/suggestions.py - edit freely
"""What a mistyped name most likely meant."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that a mistyped one most likely meant: whole names first, then their last parts."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if close:
        return close[0]
    last = name.rsplit(".", 1)[-1]
    same_end = [candidate for candidate in names if candidate.rsplit(".", 1)[-1] == last]
    if same_end:
        return difflib.get_close_matches(name, same_end, n=1, cutoff=0.0)[0]
    ends = {candidate.rsplit(".", 1)[-1]: candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(last, sorted(ends), n=1, cutoff=0.7)
    return ends[close[0]] if close else None


def choose(name: str, options: Iterable[str]) -> str:
    """Word a hint on what to choose instead of an unknown name: the nearest one first."""
    names = sorted(options)
    # Of equals one with the same letters: gpro is grpo rather than gspo.
    close = sorted(difflib.get_close_matches(name, names, n=4), key=lambda other: sorted(other) != sorted(name))
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}{'There are' if meant else 'choose one of'}: {', '.join(names)}"
