# vextract:template base/__package__/tracking/secrets.py - edit freely
"""Settings and arguments without the passwords and keys in them."""

import re
from collections.abc import Mapping
from typing import Any

SECRET = re.compile(
    r"^token$|(^|[_-])(secret|password|passwd|credentials?|(api|access|private|secret)_?key"
    r"|(auth|access|api|bearer|hf|hub|refresh|session)_?token)$",
    re.IGNORECASE,
)
USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def without_secrets(value: Any, name: str = "") -> Any:
    """Hide the values of settings that are passwords, keys or tokens by their names, and users in URLs."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, name) for item in value]
    if isinstance(value, str) and value:
        return "***" if SECRET.search(name) else USER_IN_URL.sub("***", value)
    return value
