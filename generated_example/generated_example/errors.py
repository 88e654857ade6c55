# vextract:template base/__package__/errors.py - edit freely
"""The errors of whatever a run's owner can put right."""


class ProjectError(Exception):
    """The base of this project's errors: ConfigError, DataError, HookError, CheckpointError, DivergenceError..."""


class HintedError(ProjectError, ValueError):
    """An error whose text ends with a hint that says what to do.

    Attributes:
        message: what is wrong.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)  # both, so that it can be pickled
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"


class ConfigError(HintedError):
    """The config, the command line, or what a caller gives beside it, cannot be used."""


class DataError(HintedError):
    """The data cannot be used as configured, or as given."""
