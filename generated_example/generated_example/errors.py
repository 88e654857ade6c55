# vextract:template base/__package__/errors.py - edit freely
"""The error of whatever a run's owner can put right."""


class ConfigError(ValueError):
    """The config, or the command line, cannot be used. The text ends with a hint that says what to do.

    Attributes:
        message: what is wrong.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint
