"""A command line in this process, and projects that are generated once."""

from __future__ import annotations

from tests.cli.conftest import _generate_each_project_once, run

__all__ = ["_generate_each_project_once", "run"]
