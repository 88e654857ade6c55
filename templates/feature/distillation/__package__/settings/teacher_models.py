# vextract:template - edit freely
"""Which models a run learns from, and which of them are on servers."""

from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError

MODELS = "distillation.teacher_models"
ONLY = "teacher_model"  # upstream's name of the teacher that is there unless others are
SECTION = "local.teacher_server"


def named_teachers(config: Any) -> dict[str, Any]:
    """Return the sections of a run's teachers by their names: as upstream, without `teacher_model` beside others."""
    section = config.get("distillation") or {}
    models = section.get("teacher_models") or {} if section.get("enabled") else {}
    found = {str(name): model for name, model in models.items()}
    if len(found) > 1:
        found.pop(ONLY, None)
    return found


def teacher_paths(config: Any) -> dict[str, str | None]:
    """Return where the models of the teachers in this process are, by the setting that names each."""
    served = teacher_servers(config)
    return {
        f"{MODELS}.{name}.model_path": model.get("model_path")
        for name, model in named_teachers(config).items()
        if name not in served
    }


def teacher_servers(config: Any) -> dict[str, tuple[str, ...]]:
    """Return the base URLs of the servers that have a teacher, by its name, for those that are on servers.

    Raises:
        ConfigError: it is no URL, or it is not said whose servers they are.
    """
    names, key = list(named_teachers(config)), f"{SECTION}.url"
    given = OmegaConf.select(config, key)
    given = OmegaConf.to_container(given, resolve=True) if OmegaConf.is_config(given) else given
    if not names or given is None:
        return {}
    if not isinstance(given, dict):
        if len(names) > 1:
            raise ConfigError(
                f"{key} is {given!r}, and there are {len(names)} teachers",
                f"say whose servers they are: '{key}={{{names[0]}: http://HOST:PORT}}'; the others are in this process",
            )
        given = {names[0]: given}
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ConfigError(f"{key} names {unknown[0]!r}, which is no teacher", f"the teachers are {', '.join(names)}")
    return {name: _urls(f"{key}.{name}", given[name]) for name in names if given.get(name) is not None}


def _urls(key: str, given: Any) -> tuple[str, ...]:
    """Return base URLs, in the form in which paths are added to them: as clients of OpenAI have them, without /v1."""
    urls = given if isinstance(given, list) else [given]
    for url in urls:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ConfigError(f"{key} is {given!r}", "write it as http://HOST:PORT, or a list of such")
    if not urls:
        raise ConfigError(f"{key} is empty", "leave it out for a teacher in this process")
    return tuple(dict.fromkeys(url.rstrip("/").removesuffix("/v1").rstrip("/") for url in urls))
