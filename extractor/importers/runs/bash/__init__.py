"""Interpret bash without running it: find the commands a script starts.

`syntax` parses it (`quotes` says where quotes and expansions end), `words` expands its words (with `arithmetic`),
`conditions` decides tests, `statements` goes through it, with `state` and the `other_scripts` it starts.
"""

from extractor.importers.runs.bash.script import ScriptReading, read_script
from extractor.importers.runs.bash.state import Command, refuse_length

__all__ = ["Command", "ScriptReading", "read_script", "refuse_length"]
