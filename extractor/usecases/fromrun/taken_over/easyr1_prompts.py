"""What a run of EasyR1 adds to its prompts, as a dataset class among the hooks of its project."""

from __future__ import annotations

from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.other_libraries.translation import Written
from extractor.usecases.fromrun.taken_over.recipient import Recipient, Taken

KEY = "data.format_prompt"
DATASET, NAME = "custom/easyr1_dataset", "EasyR1Prompts"
_TEXT = '''# vextract:hook  yours: written once, never touched by an upgrade
"""The prompts of the run: the text of each row in the template that it has for them."""

from typing import Any

import jinja2

from {package}.data.datasets import RowPrompts, rows_in_schema
from {package}.data.files import read_rows

TEMPLATE: str = {template!r}
SYSTEM: str = {system!r}
# The column that has the answer.
ANSWER: str | None = {answer!r}


class EasyR1Prompts(RowPrompts):
    """verl's dataset of files whose prompts are text; a row that has messages stays as it is."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the files, with prompts as the run writes them."""
        read = [row for file in self.data_files for row in read_rows(str(file), "data.train_files")]
        return rows_in_schema([self._written(row) for row in read], "train", self.config)

    def _written(self, row: dict[str, Any]) -> dict[str, Any]:
        prompt = row.get(self.prompt_key)
        if isinstance(prompt, str):
            text = jinja2.Template(TEMPLATE).render(content=prompt)
            system = [{{"role": "system", "content": SYSTEM}}] if SYSTEM else []
            row = {{**row, self.prompt_key: [*system, {{"role": "user", "content": text}}]}}
        return {{**row, "ground_truth": row[ANSWER]}} if ANSWER in row else row
'''


def take(project: Recipient, written: Written | None) -> Taken:
    """Write a dataset class that adds to prompts what the run adds."""
    if written is None or not project.has("data/datasets") or project.settings.get("data.custom_cls.path"):
        return Taken(project.tree)
    text = _TEXT.format(
        package=project.package, template=written.template.strip(), system=written.system, answer=written.answer
    )
    target = f"{project.package}/{DATASET}.py"
    remark = Remark(KEY, written.place, "changed", f"written into prompts that are text by {NAME} in {target}")
    tree = project.with_hooks({f"{DATASET}.py": text}, {})
    return Taken(tree, [remark], {"data.custom_cls.path": target, "data.custom_cls.name": NAME})
