# vextract:template - edit freely
"""Where images stand in the text of a prompt."""

from typing import Any

MARK = "<image>"


def with_marks(content: Any) -> Any:
    """Return the parts of a message's content with a mark for each part that only says that an image is there."""
    if not isinstance(content, list):
        return content
    return [{"type": "text", "text": MARK} if part == {"type": "image"} else part for part in content]
