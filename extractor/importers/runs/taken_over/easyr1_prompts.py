"""What a run of EasyR1 adds to its prompts, as a dataset class among the hooks of its project."""

from __future__ import annotations

from extractor.importers.runs import templates
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.other_libraries.translation import Written
from extractor.importers.runs.taken_over.recipient import Recipient, Taken

KEY = "data.format_prompt"
DATASET, NAME = "custom/easyr1_dataset", "EasyR1Prompts"


def take(project: Recipient, written: Written | None) -> Taken:
    """Write a dataset class that adds to prompts what the run adds."""
    if written is None or not project.has("data/datasets") or project.settings.get("data.custom_cls.path"):
        return Taken(project.tree)
    text = templates.render(
        "easyr1_dataset.py",
        package=project.package,
        template=repr(written.template.strip()),
        system=repr(written.system),
        answer=repr(written.answer),
    )
    target = f"{project.package}/{DATASET}.py"
    remark = Remark(KEY, written.place, "changed", f"written into prompts that are text by {NAME} in {target}")
    tree = project.with_hooks({f"{DATASET}.py": text}, {})
    return Taken(tree, [remark], {"data.custom_cls.path": target, "data.custom_cls.name": NAME})
