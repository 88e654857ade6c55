# vextract:template - edit freely
"""Which models a run learns from."""

from typing import Any

MODELS = "distillation.teacher_models"
ONLY = "teacher_model"  # upstream's name of the teacher that is there unless others are


def named_teachers(config: Any) -> dict[str, Any]:
    """Return the sections of a run's teachers by their names: as upstream, without `teacher_model` beside others."""
    section = config.get("distillation") or {}
    models = section.get("teacher_models") or {} if section.get("enabled") else {}
    found = {str(name): model for name, model in models.items()}
    if len(found) > 1:
        found.pop(ONLY, None)
    return found


def teacher_paths(config: Any) -> dict[str, str | None]:
    """Return where the models of the teachers are, by the setting that names each."""
    return {f"{MODELS}.{name}.model_path": model.get("model_path") for name, model in named_teachers(config).items()}
