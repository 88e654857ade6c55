"""Put numbers into words."""


def count_noun(number: int, noun: str) -> str:
    """Return "1 file" or "2 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
