"""Write settings as YAML."""

from collections.abc import Mapping
from typing import Any

import yaml


def nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted keys into a tree."""
    tree: dict[str, Any] = {}
    for key, value in sorted(settings.items()):
        parts = key.split(".")
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part, {})
        node[parts[-1]] = value
    return tree


def dump_yaml(body: Mapping[str, Any]) -> str:
    """Write a mapping as block-style YAML with scalar lists inline."""
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110) if body else ""


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Block style, lists of scalars in one line."""


_Dumper.add_representer(
    list, lambda dumper, value: dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)
)
_Dumper.add_representer(float, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:float", _number(value)))


def _number(value: float) -> str:
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
