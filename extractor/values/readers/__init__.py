"""Read untrusted input within limits; each reader has one exception type.

`OSError` for files, `SyntaxError` for Python, `TOMLDecodeError` for TOML, `YAMLError` for YAML, `ValueError` for JSON.
"""

from extractor.values.readers.data import TOMLDecodeError, check_yaml, parse_json, parse_toml
from extractor.values.readers.files import (
    ZIP_ERRORS,
    NotAFile,
    decode,
    find_clash,
    is_plain_path,
    is_stored,
    is_there,
    list_files_below,
    list_python_below,
    read_bytes,
    read_commented,
    read_start,
    read_text,
    show_path,
    write_size,
)
from extractor.values.readers.syntax import (
    decode_python,
    parse_expression,
    parse_python,
    parse_python_cached,
    parse_python_or_nothing,
    split_lines,
)

__all__ = [
    "NotAFile",
    "TOMLDecodeError",
    "ZIP_ERRORS",
    "check_yaml",
    "find_clash",
    "parse_expression",
    "list_files_below",
    "is_plain_path",
    "is_stored",
    "is_there",
    "split_lines",
    "parse_json",
    "parse_python",
    "parse_python_cached",
    "list_python_below",
    "parse_python_or_nothing",
    "decode_python",
    "read_bytes",
    "read_commented",
    "read_start",
    "read_text",
    "show_path",
    "write_size",
    "decode",
    "parse_toml",
]
