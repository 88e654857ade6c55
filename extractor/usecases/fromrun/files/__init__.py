"""The Python files that a run names: found, and copied into a project with what they import.

`places` says where a run's relative paths may lead, `imports` rewrites what a module imports, and `copying` gathers the
files: the owner's own, and those of verl that the project does not have.
"""

from extractor.usecases.fromrun.files.copying import FOLDER, Copying
from extractor.usecases.fromrun.files.gathered import Copied
from extractor.usecases.fromrun.files.modules import SCORERS
from extractor.usecases.fromrun.files.places import Places, is_file, is_on_the_hub

__all__ = ["FOLDER", "SCORERS", "Copied", "Copying", "Places", "is_file", "is_on_the_hub"]
