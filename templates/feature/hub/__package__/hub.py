# vextract:template - edit freely
"""The card of an exported model, which says how it was trained, and its way to a model hub."""

from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCard, ModelCardData
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from omegaconf import OmegaConf

from .absent import SHIPPED
from .errors import ConfigError
from .run.checkpoint_files import MANIFEST, notes_of
from .tracking.run_tracker import CONFIG


def upload(model: Path, name: str, checkpoint: Path, *, private: bool) -> str:
    """Upload a model to a repository of the hub, which is made if it is not there.

    Args:
        model: the exported model's directory, with its card.
        name: of the repository: "user/model".
        checkpoint: that the model was exported from.
        private: of a repository that is made now: whether others cannot see it.

    Returns:
        The address of the commit.

    Raises:
        ConfigError: the hub cannot be reached, or refuses.
    """
    try:
        api = HfApi()
        api.create_repo(name, private=private, exist_ok=True)
        done = api.upload_folder(repo_id=name, folder_path=model, commit_message=f"{checkpoint.name} of a run")
    except (HfHubHTTPError, HFValidationError, OSError, RuntimeError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(
            f"the model is in {model}, and was not pushed to {name}: {text}",
            f"`hf auth login`, or HF_TOKEN, says who you are; then: hf upload {name} {model}",
        ) from error
    return str(done)


def card(checkpoint: Path) -> ModelCard:
    """Return the model card of a checkpoint: what it was trained from, by what, on what, and how good it is."""
    config = _config(checkpoint.parent / CONFIG)
    base = _selected(config, "actor_rollout_ref.model.path")
    notes = notes_of(checkpoint) if (checkpoint / MANIFEST).is_file() else {}
    supervised = _selected(config, "local.supervised")
    project = SHIPPED["project"]
    is_on_hub = base is not None and str(base).count("/") == 1 and not Path(str(base)).exists()
    rows = {
        "trained from": base if base is None or is_on_hub else Path(str(base)).name,  # no path of this machine
        "trained by": "supervised training on demonstrations" if supervised else _algorithm(config),
        "steps": notes.get("step"),
        "validation score": notes.get("score"),
        "data": _files(_selected(config, "data.train_files")),
        "code": f"verl {project['verl']}, in a project made by vextract {project['vextract']}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items() if value is not None)
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["verl", "supervised" if supervised else "reinforcement-learning"],
        base_model=str(base) if is_on_hub else None,
    )
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n# {checkpoint.parent.name}\n\n| | |\n|---|---|\n{table}\n")


def _config(path: Path) -> Any:
    return OmegaConf.load(path) if path.is_file() else OmegaConf.create()


def _selected(config: Any, key: str) -> Any:
    return OmegaConf.select(config, key)


def _algorithm(config: Any) -> str | None:
    """Name the estimator and the loss, if the run's config is there."""
    estimator = _selected(config, "algorithm.adv_estimator")
    if estimator is None:
        return None
    loss = _selected(config, "actor_rollout_ref.actor.policy_loss.loss_mode")
    return f"the advantages of {estimator}, the loss {loss}"


def _files(value: Any) -> str | None:
    """Name files without where they are on this machine."""
    if not value:
        return None
    return ", ".join(Path(str(item)).name for item in ([value] if isinstance(value, str) else value))
