"""What a project itself would refuse to start with, and so would verl, on a cluster and later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extractor.importers.config.project import ProjectConfig
from extractor.importers.export.choices import CHOICES
from extractor.values.errors import UsageError
from extractor.values.setting_types import PATH, types_and_words

_KINDS = {"bool": "true or false", "int": "a whole number", "float": "a number"}
_FILES = ("data.train_files", "data.val_files")


def check(config: ProjectConfig, usual: Mapping[str, Any], package: Path) -> None:
    """Check what is exported as the project's `settings/loading.py` does, as far as that needs no torch.

    Args:
        config: What is exported.
        usual: Dotted key -> value of the project without the settings of the command line.
        package: The project's package.

    Raises:
        UsageError: a text stands in the place of a number, a word is none of those that there are, or one of training
            and validation has files and the other has none. Words that the target's code is asked for are its own.
    """
    kinds, words = types_and_words(file.read_text(encoding="utf-8") if (file := package / PATH).is_file() else "")
    for key, value in config.flat.items():
        kind = kinds.get(key) or type(usual.get(key)).__name__
        if isinstance(value, str) and kind in _KINDS:
            raise UsageError(
                f"{key} is {value!r}, which is not {_KINDS[kind]}", hint=f"--set {key}={json.dumps(usual.get(key))}"
            )
        if value is not None and key not in CHOICES and value not in words.get(key, [value]):
            raise UsageError(f"{key} is {value!r}", hint=f"choose one of: {', '.join(map(str, words[key]))}")
    given = {key: bool(config.flat.get(key)) for key in _FILES}
    for key, other in (_FILES, _FILES[::-1]):
        if given[key] and not given[other] and not config.flat.get("data.custom_cls.path"):
            raise UsageError(f"{key} is set and {other} is not", hint=f"--set {other} to a file of its own")
