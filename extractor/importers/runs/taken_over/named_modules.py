"""The modules that a run has imported before its model is loaded, for what they register with transformers."""

from __future__ import annotations

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.values.errors import UsageError

KEYS = ("actor_rollout_ref.model.external_lib", "critic.model.external_lib")
HOOK = "custom/verl_models"


def take(project: Recipient) -> Taken:
    """Copy those that are in the run's checkout; the settings name a hook that imports them then."""
    module = f"{project.package}.{HOOK.replace('/', '.')}"
    named = {key: value for key in KEYS if (value := project.settings.get(key)) not in (None, [], "", module)}
    named = {key: value for key, value in named.items() if not str(value).startswith("$")}  # as the other's
    names = dict.fromkeys(name for value in named.values() for name in (value if isinstance(value, list) else [value]))
    if not names:
        return Taken(project.tree)
    lines = [f"import {name} as _{number}" for number, name in enumerate(names)]
    text = "\n".join(['"""What the run imports before its models are loaded."""', "", *lines, ""])
    copying, (key, value) = project.copying(), next(iter(named.items()))
    try:
        copied = copying.copy(text, [f"_{number}" for number in range(len(names))])
    except (SyntaxError, UsageError, OSError) as error:
        return Taken(project.tree, [Remark(key, value, "to do", f"not copied: {error}")])
    if not copying.files:  # packages alone
        why = f"not in the run's checkout: pip install {' '.join(copied.packages)}, or say --cwd"
        return Taken(project.tree, [Remark(key, value, "to do", why)] if copied.packages else [])
    target = f"{project.package}/{HOOK}.py"
    remarks = [Remark(key, value, "to do", f"{target} cannot be imported: {why}") for why in copied.missing]
    remarks += copied_remarks(key, value, "the run's checkout", target, copied)
    tree = project.with_hooks({f"{HOOK}.py": copied.text, **copying.files}, {})
    return Taken(tree, remarks, dict.fromkeys(named, module))
