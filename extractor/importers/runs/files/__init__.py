"""The Python files that a run names: found, and copied into a project with what they import.

`places` says where a run's relative paths may lead, `imports` rewrites what a module imports, and `copying` gathers the
files: the owner's own, and those of verl that the project does not have.
"""

from extractor.importers.runs.files.copying import FOLDER, Copying
from extractor.importers.runs.files.gathered import Copied
from extractor.importers.runs.files.modules import SCORERS
from extractor.importers.runs.files.places import Places, is_file, is_on_the_hub

__all__ = ["FOLDER", "SCORERS", "Copied", "Copying", "Places", "is_file", "is_on_the_hub"]
