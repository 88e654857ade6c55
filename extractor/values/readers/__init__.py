"""Read untrusted input within limits; each reader raises one kind of error.

`OSError` for files, `SyntaxError` for Python, `TOMLDecodeError` for TOML, `YAMLError` for YAML, `ValueError` for JSON.
"""

from extractor.values.readers.data import TOMLDecodeError, check_yaml, parse_json, toml
from extractor.values.readers.files import (
    ZIP_ERRORS,
    NotAFile,
    clash,
    decode,
    files_below,
    is_plain_path,
    is_stored,
    is_there,
    python_below,
    read_bytes,
    read_commented,
    read_start,
    read_text,
    shown,
    size,
)
from extractor.values.readers.syntax import (
    expression,
    parse_python_cached,
    python,
    python_or_nothing,
    python_text,
    split_lines,
)

__all__ = [
    "NotAFile",
    "TOMLDecodeError",
    "ZIP_ERRORS",
    "check_yaml",
    "clash",
    "expression",
    "files_below",
    "is_plain_path",
    "is_stored",
    "is_there",
    "split_lines",
    "parse_json",
    "python",
    "parse_python_cached",
    "python_below",
    "python_or_nothing",
    "python_text",
    "read_bytes",
    "read_commented",
    "read_start",
    "read_text",
    "shown",
    "size",
    "decode",
    "toml",
]
