"""Read untrusted input within limits; each reader raises one kind of error.

`OSError` for files, `SyntaxError` for Python, `TOMLDecodeError` for TOML, `YAMLError` for YAML, `ValueError` for JSON.
"""

from extractor.values.readers.data import TOMLDecodeError, check_yaml, parse_json, toml
from extractor.values.readers.files import (
    ZIP_ERRORS,
    NotAFile,
    clash,
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
    text_of,
)
from extractor.values.readers.syntax import expression, lines_of, python, python_again, python_text

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
    "lines_of",
    "parse_json",
    "python",
    "python_again",
    "python_below",
    "python_text",
    "read_bytes",
    "read_commented",
    "read_start",
    "read_text",
    "shown",
    "size",
    "text_of",
    "toml",
]
