from pathlib import Path

from extractor.usecases.verify import project_files
from extractor.usecases.verify.parity import check_coverage
from tests.verify.projects import small

TEXT = '''"""Words."""


def used(x):
    """Words."""
    if x:
        return 1
    return 2


def unused():
    return 3


def _private():
    return 4


class Thing:
    def method(self):
        return 5

    def nothing(self):
        pass
'''


def test_functions_count_as_covered_where_a_line_of_them_ran(tmp_path: Path) -> None:
    project = small(tmp_path / "p", {"toy/core.py": TEXT})
    path = str((project / "toy/core.py").resolve())
    check = check_coverage(project_files.read_project(project), {path: [1, 4, 6, 7, 11, 15, 19, 20, 21]})
    assert check.details == ("toy/core.py: 2 of 3 functions, 50% of lines; not covered: unused",)
    assert "ran 50% of the lines of the functions in 1 vendored file, in 2 of 3 public functions" in check.summary
    check = check_coverage(project_files.read_project(project), {})
    assert check.ok
    assert check.details == ("toy/core.py: 0 of 3 functions, 0% of lines; not covered: used, unused, Thing.method",)
