"""Bash, read and never run: what a script's commands would be.

`state` holds what is known at a place of the script, and `scopes` whose it is; `expansion` and `parameters` make words
of the parser's nodes, `quoting`, `patterns` and `braces` of what the parser takes apart; `conditions` decides tests,
`statements` and `branches` go through the script, and `script` puts them together.
"""

from extractor.importers.runs.bash.script import Reading, read_script
from extractor.importers.runs.bash.state import Command, too_much

__all__ = ["Command", "Reading", "read_script", "too_much"]
