"""What is changed in the text of templates: shims come symbol by symbol, and long imports get a line for each name."""

from extractor.pipeline.render.long_imports import wrap_imports
from extractor.pipeline.render.shims import select_shims, slice_module

TEXT = '''"""Two animals."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from .others import zebra

LEGS = 4


def bear(name: str) -> Any:
    """Growl."""
    return os.fspath(name), LEGS


def lion() -> NoReturn:
    """Roar."""
    raise zebra
'''


def test_what_nobody_imports_is_left_out_with_its_imports() -> None:
    found = slice_module(TEXT, {"bear"})
    assert "lion" not in found
    assert "import os\nfrom typing import Any\n\nLEGS = 4\n\n\ndef bear" in found
    assert slice_module(TEXT, {"bear", "lion"}) == TEXT


def test_shims_bring_what_they_import_and_visitors_bring_no_module() -> None:
    shims = {f"p/shims/{name}.py": text for name, text in (("__init__", '"""S."""\n'), ("zoo", TEXT))}
    shims["p/shims/others.py"] = "zebra = ValueError()\n\n\nhorse = 1\n"
    found = select_shims(shims, "p", ["from p.shims.zoo import bear\n"], ["from ..shims.others import horse\n"])
    assert {*found} == {"p/shims/__init__.py", "p/shims/zoo.py"}
    found = select_shims(shims, "p", ["from ..shims.zoo import (\n    lion,\n)\n"], ["from ..shims.zoo import bear\n"])
    assert {*found} == {*shims}
    assert found["p/shims/zoo.py"] == TEXT
    assert found["p/shims/others.py"] == "zebra = ValueError()\n"


def test_an_import_that_is_too_long_gets_a_name_a_line() -> None:
    package = "p" * 70
    long = f"    from {package}.settings.loading import ConfigError, load_config, notes_on\n"
    assert wrap_imports(f"import os\n{long}x = 1\n") == (
        f"import os\n    from {package}.settings.loading import (\n"
        "        ConfigError,\n        load_config,\n        notes_on,\n    )\nx = 1\n"
    )
    short = long.replace(package, "p")
    assert wrap_imports(short) == short
