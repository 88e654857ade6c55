# vextract:template base/__package__/run/first_import.py - edit freely
"""Import transformers in less time."""

import functools
import sys
from typing import Any

_READS_A_FOLDER = "create_import_structure_from_path"


def import_transformers() -> None:
    """Import transformers, with all that it notes of its models kept until it needs it again.

    To know what its hundreds of models define, transformers reads all of their files when it is imported, and again
    when the first of them is: of what it found it keeps 128 folders, and there are more
    (`transformers.utils.import_utils`). Where it was imported before, or notes this otherwise, nothing is changed.
    """
    if "transformers" in sys.modules:
        return
    plain: Any = functools.lru_cache

    def keeping(maxsize: Any = 128, typed: bool = False) -> Any:
        if getattr(maxsize, "__name__", "") == _READS_A_FOLDER:  # it is the decorator itself
            return plain(maxsize=None)(maxsize)
        return plain(maxsize, typed)

    functools.lru_cache = keeping
    try:
        import transformers  # noqa: F401
    finally:
        functools.lru_cache = plain
