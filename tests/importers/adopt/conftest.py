"""A command line in this process, and projects that are generated once."""

from tests.cli.conftest import run

__all__ = ["run"]
