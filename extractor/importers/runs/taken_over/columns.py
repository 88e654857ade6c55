"""Columns that copies read from a batch, and that nobody puts there in a project, or not before they are read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over import own_verl, registered
from extractor.importers.runs.taken_over.recipient import Recipient
from extractor.pipeline.index.batch_keys import OF_ROWS, keys_read, keys_stored, keys_written, texts

# What a project computes after the reward.
_LATER = {"entropys", "ref_log_prob", "values"}
_IS_LATER = "is computed behind the reward here"


class Columns:
    """Knows what puts columns into a batch: the project, its copies of the run's code, and the run's own trainer.

    Args:
        project: With the copies.
        copies: Their texts, by path.
    """

    def __init__(self, project: Recipient, copies: Mapping[str, str]) -> None:
        self._project = project
        self._code = "\n".join(text for path, text in project.code.items() if path not in copies)
        self._given = set[str]()
        for text in copies.values():
            nodes = list(ast.walk(registered.tree_of(text)))
            read = {key for _, key in keys_read(nodes)}
            # A dataset class may put it into its items; a count of what was read elsewhere is none.
            items = {
                *keys_stored(nodes),
                *texts(key for item in nodes if isinstance(item, ast.Dict) for key in item.keys),
            }
            self._given |= {*keys_written(nodes, ("batch",)), *(items - read)}

    @cached_property
    def _of_the_trainer(self) -> dict[str, str]:
        """Return the columns that changed files of the checkout's verl give to rows, each with the file."""
        found = {}
        for path in own_verl.changed(self._project):
            text = self._project.text(path)
            if OF_ROWS[0] in text:
                found.update(dict.fromkeys(keys_written(ast.walk(registered.tree_of(text))), path))
        return found

    def unfed(self, tree: ast.Module, path: str) -> list[Remark]:
        """Say which keys of a batch a copy reads that nothing in the project puts there.

        Args:
            tree: The copy.
            path: Of it.
        """
        nodes = list(ast.walk(tree))
        keys = {key for _, key in keys_read(nodes)} - set(keys_stored(nodes))
        later = [Remark("batch", key, "to do", f"{path} reads it, and it {_IS_LATER}") for key in sorted(keys & _LATER)]
        found = later if "reward_tensor" in ast.dump(tree) else []
        why = f"{path} reads it from a batch, where only the trainer of the run's checkout puts it"
        lacking = sorted(key for key in keys - set(_looked_for(nodes)) if not self._is_known(key))
        found += [Remark("batch", key, "to do", why) for key in lacking]
        rows = {key for _, key in keys_read(nodes, OF_ROWS)}
        for key in sorted(key for key in rows if not self._is_known(key) and key in self._of_the_trainer):
            why = f"{path} reads it from rows, to which only {self._of_the_trainer[key]} of the run's checkout gives it"
            found.append(Remark("batch", key, "to do", why))
        return found

    def _is_known(self, key: str) -> bool:
        quoted = rf"[\"']{re.escape(key)}[\"']"
        named = re.search(rf"(?<!batch\[)(?<!meta_info\[){quoted}|\[{quoted}\] = ", self._code)
        return key in self._given or named is not None


def _looked_for(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what code looks for before it reads it: `if "key" in data.batch`."""
    for item in nodes:
        if isinstance(item, ast.Compare) and isinstance(item.ops[0], (ast.In, ast.NotIn)):
            yield from texts([item.left])
