"""Known ways to a reward without solving the task, tried before a policy finds them: `vextract attack`.

- programs: for rewards that run code
- texts: for rewards that read the text of a response
"""

from pathlib import Path

from .. import rewards

# A project without the sandbox has programs judged by vextract's own.
rewards.__path__.append(str(Path(__file__).parents[2] / "feature" / "sandbox" / "__package__" / "rewards"))
