# vextract:template base/setup.py.jinja - edit freely
"""Say which Python `pip install .` takes, before pip's downloads. Everything else is in pyproject.toml."""

import sys

from setuptools import setup

if sys.version_info < (3, 10):  # noqa: UP036
    found = f"{sys.executable} is {sys.version.split()[0]}"
    sys.exit(f"generated_example needs Python 3.10 or newer; {found}")
setup()
