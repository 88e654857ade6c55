# vextract:template base/__package__/settings/project_code.py - edit freely
"""Look things up in the text of the project's code, hooks included, without importing any of it."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ALGORITHMS = PACKAGE / "vendored" / "algorithms" / "core_algos.py"
# Modules that list settings by name, for checks: that does not count as a use.
TABLES = (
    "former_keys.py",
    "path_checks.py",
    "ranges.py",
    "setting_checks.py",
    "setting_types.py",
    "shipped_settings.py",
    "unread.py",
)
# Folders of such modules.
TABLE_FOLDERS = ("api/names",)
# Comments, docstrings and messages: a word in them does not count as a use; one in the braces of an f-string does.
STRING_OR_COMMENT = re.compile(
    r"""(?P<prefix>\b[rbufRBUF]{1,2})?
    (?P<string>\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |\#[^\n]*""",
    re.VERBOSE | re.DOTALL,
)


@cache
def words_of_code(more: tuple[str, ...] = ()) -> frozenset[str]:
    """Collect the words in the project's code, without comments and docstrings.

    Args:
        more: further files: the owner's, outside the project.
    """
    words: set[str] = set()
    for path in (*_files(), *(Path(name) for name in more if Path(name).is_file())):
        if path.name not in TABLES and not any(path.is_relative_to(PACKAGE / folder) for folder in TABLE_FOLDERS):
            words.update(re.findall(r"\w+", _without_text(_text(path))))
    return frozenset(words)


def is_quoted(name: str) -> bool:
    """Tell whether a text stands in the project's code between quotation marks."""
    quoted = re.compile(rf"[\"']{re.escape(name)}[\"']")
    return any(quoted.search(_text(path)) for path in _files())


def is_compared(value: str) -> bool:
    """Tell whether the algorithms, verl's file of them and the hooks, compare something with a text: `mode == "x"`."""
    compared = re.compile(rf"""(?:==|\bin\b[^=\n]*|\bcase)\s*["']{re.escape(value)}["']""")
    places = (ALGORITHMS, *(PACKAGE / "custom").rglob("*.py"))
    return any(compared.search(_text(path)) for path in places if path.is_file())


def registered_names(decorator: str, enumeration: str = "") -> frozenset[str] | None:
    """List the names that a decorator registers things under, as far as the code says them.

    Args:
        decorator: the function's name: register_adv_est.
        enumeration: a class of the project whose values may stand for names.

    Returns:
        None if a name is computed, so that they cannot be read off the code.
    """
    members = _members(enumeration) if enumeration else {}
    found = set(members.values())
    for call in _calls(decorator):
        if not call.args:
            continue
        name = call.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            found.add(name.value)
        elif not (isinstance(name, ast.Attribute) and name.attr in members):
            return None
    return frozenset(found)


@cache
def words_of_registered(decorator: str, enumeration: str = "") -> dict[str, frozenset[str]]:
    """Collect the words in each of verl's own functions that a decorator registers, by the name that it has then.

    Args:
        decorator, enumeration: see `registered_names`.
    """
    members = _members(enumeration) if enumeration else {}
    found = {}
    lines = _text(ALGORITHMS).splitlines()
    for function in _tree(ALGORITHMS).body:
        for call in function.decorator_list if isinstance(function, ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == decorator:
                name = call.args[0]
                known = name.value if isinstance(name, ast.Constant) else members.get(getattr(name, "attr", ""))
                text = "\n".join(lines[function.lineno - 1 : function.end_lineno])
                found[str(known)] = frozenset(re.findall(r"\w+", _without_text(text)))
    return found


def _files() -> Iterator[Path]:
    """Yield the project's files, those first where a name is likeliest found."""
    first = [ALGORITHMS, *sorted((PACKAGE / "custom").rglob("*.py"))]
    yield from (path for path in first if path.is_file())
    yield from (path for path in sorted(PACKAGE.rglob("*.py")) if path not in first)
    yield from (path for path in (PACKAGE.parent / "main.py",) if path.is_file())


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def _without_text(code: str) -> str:
    """Return code without its comments, its docstrings, and its strings that are not names."""
    return STRING_OR_COMMENT.sub(_name_in, code)


def _name_in(match: re.Match[str]) -> str:
    """Keep a string that may be a name (a.b.c, or an f-string), and drop everything else that was matched."""
    string = match["string"] or ""
    is_name = "f" in (match["prefix"] or "").lower() or re.fullmatch(r"[\w./:-]*", string[1:-1])
    return string if is_name else " "


def _trees(word: str) -> Iterable[ast.Module]:
    """Parse the files that have a word; a file that is not Python is skipped."""
    for path in _files():
        if word in _text(path):
            try:
                yield _tree(path)
            except SyntaxError:
                continue


def _calls(decorator: str) -> Iterator[ast.Call]:
    for tree in _trees(f"{decorator}("):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == decorator:
                yield node


def _members(enumeration: str) -> dict[str, str]:
    """Read name and value of the members of an enumeration."""
    for tree in _trees(f"class {enumeration}("):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == enumeration:
                assigned = [item for item in node.body if isinstance(item, ast.Assign)]
                return {
                    target.id: item.value.value
                    for item in assigned
                    for target in item.targets
                    if isinstance(target, ast.Name)
                    and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str)
                }
    return {}
