# vextract:template
"""Runs tests by pytest, where they need what it has: parameters, fixtures, marks."""

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .remote import Connection

OPTIONS = "-p no:cacheprovider -p no:faulthandler -p no:logging --capture=no --noconftest --import-mode=importlib -q"


def run_pytest(
    space: types.ModuleType, connection: Connection, count: Callable[[int], None], say: Callable[[bool], None]
) -> None:
    """Run the tests of a module that has been executed.

    Args:
        space: the module.
        connection: to the candidate; when that is gone, no test passes.
        count: is told how many tests there are: one that is skipped before it begins, or may fail, is none.
        say: is told of each test whether it passed.
    """
    import pytest

    class Module(pytest.Module):
        def _getobj(self) -> types.ModuleType:
            return space

    class Plugin:
        def __init__(self) -> None:
            self.reports: list[Any] = []
            self.said = 0

        def pytest_collect_file(self, parent: Any, file_path: Path) -> Any:
            return Module.from_parent(parent, path=file_path)

        def pytest_collection_finish(self, session: Any) -> None:
            count(len(session.items))

        def pytest_runtest_logreport(self, report: Any) -> None:
            self.reports.append(report)
            if report.when != "teardown":
                return
            if not self.reports[0].skipped and not any(hasattr(one, "wasxfail") for one in self.reports):
                say(all(one.passed for one in self.reports) and not connection.is_lost)
                self.said += 1
            self.reports = []

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.modules[space.__name__] = space
    plugin = Plugin()
    file = os.__file__  # which can be read, and the folder that it is in
    settings = ["--rootdir=/", f"--confcutdir={os.path.dirname(file)}", "-c", "/dev/null"]
    pytest.main([*OPTIONS.split(), *settings, file], plugins=[plugin])
    count(plugin.said)
