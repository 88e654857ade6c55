"""Read untrusted input within limits; each reader has one exception type.

`OSError` for files, `SyntaxError` for Python, `TOMLDecodeError` for TOML, `YAMLError` for YAML, `ValueError` for JSON.
"""

from extractor.values.readers.data import TOMLDecodeError as TOMLDecodeError
from extractor.values.readers.data import check_yaml as check_yaml
from extractor.values.readers.data import parse_json as parse_json
from extractor.values.readers.data import parse_toml as parse_toml
from extractor.values.readers.files import ZIP_ERRORS as ZIP_ERRORS
from extractor.values.readers.files import NotAFile as NotAFile
from extractor.values.readers.files import decode as decode
from extractor.values.readers.files import find_clash as find_clash
from extractor.values.readers.files import is_plain_path as is_plain_path
from extractor.values.readers.files import is_stored as is_stored
from extractor.values.readers.files import is_there as is_there
from extractor.values.readers.files import list_files_below as list_files_below
from extractor.values.readers.files import list_python_below as list_python_below
from extractor.values.readers.files import read_bytes as read_bytes
from extractor.values.readers.files import read_commented as read_commented
from extractor.values.readers.files import read_text as read_text
from extractor.values.readers.files import show_path as show_path
from extractor.values.readers.files import write_size as write_size
from extractor.values.readers.syntax import decode_python as decode_python
from extractor.values.readers.syntax import parse_expression as parse_expression
from extractor.values.readers.syntax import parse_python as parse_python
from extractor.values.readers.syntax import parse_python_cached as parse_python_cached
from extractor.values.readers.syntax import parse_python_or_nothing as parse_python_or_nothing
from extractor.values.readers.syntax import split_lines as split_lines
