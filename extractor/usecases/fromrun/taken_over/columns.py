"""Columns that what was taken over reads from a batch, and that nobody puts there in a project."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from extractor.pipeline.index.batch_keys import OF_ROWS, keys_read, keys_written
from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.taken_over import own_verl, registered
from extractor.usecases.fromrun.taken_over.recipient import Recipient

# Tensors: no column of a file of data is one. What rows have may be of the data, unless the run's trainer makes it.
_TENSORS = ("batch",)


def remarks(before: Recipient, after: Recipient) -> list[Remark]:
    """Return what a user has to see to: each file that reads such columns, with these.

    Args:
        before: The project without what the run's checkout has, and the run.
        after: The same with it.
    """
    files = before.code
    taken = {path: registered.tree_of(text) for path, text in after.code.items() if files.get(path) != text}
    if not taken:
        return []
    nodes = {path: list(ast.walk(tree)) for path, tree in taken.items()}
    read = {path: dict.fromkeys(_read(items)) for path, items in nodes.items()}
    known = set(chain.from_iterable(map(_texts, map(ast.walk, map(registered.tree_of, files.values())))))
    known |= set(chain.from_iterable(keys_written(items, _TENSORS) for items in nodes.values()))
    for path, items in nodes.items():  # a dataset class puts tensors into its items
        known.update(key for key in _written(items) if key not in read[path])
    of_trainer = dict(_of_the_trainer(before))
    rows = {path: dict.fromkeys(key for _, key in keys_read(items, OF_ROWS)) for path, items in nodes.items()}
    found = []
    for path in taken:
        tensors = sorted(key for key in read[path] if key not in known)
        columns = sorted(key for key in rows[path] if key in of_trainer and key not in known)
        if tensors or columns:
            where = dict.fromkeys(of_trainer[key] for key in columns)
            by = f" ({', '.join(where)})" if where else ""
            names = ", ".join([*tensors, *columns])
            why = f"it reads {names} from the batch, where only the run's own trainer puts that{by}: have it do without"
            found.append(Remark(path, "", "to do", why))
    return found


def _read(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the tensors that code reads from a batch without a look whether they are there."""
    looked_for = {
        item.left.value
        for item in nodes
        if isinstance(item, ast.Compare)
        and isinstance(item.ops[0], (ast.In, ast.NotIn))
        and isinstance(item.left, ast.Constant)
    }
    yield from (key for _, key in keys_read(nodes, _TENSORS) if key not in looked_for)


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    yield from (item.value for item in nodes if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _written(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the keys under which code puts something somewhere."""
    for item in nodes:
        if isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store):
            yield from _texts([item.slice])
        elif isinstance(item, ast.Dict):
            yield from _texts([key for key in item.keys if key is not None])


def _of_the_trainer(project: Recipient) -> Iterator[tuple[str, str]]:
    """Yield the columns that changed files of the checkout's verl give to rows, each with the file."""
    texts: Mapping[str, str] = {path: project.text(path) for path in own_verl.changed(project)}
    for path, text in texts.items():
        if OF_ROWS[0] in text:
            yield from ((key, path) for key in keys_written(ast.walk(registered.tree_of(text))))
