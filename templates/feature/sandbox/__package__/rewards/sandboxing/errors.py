# vextract:template
"""The errors of the sandbox, whose texts end with a hint that says what to do."""


class HintedError(Exception):
    """The base of both.

    Attributes:
        message: why.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)  # both, so that it can be pickled
        self.message, self.hint = message, hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class SandboxError(HintedError, RuntimeError):
    """Programs cannot be run here, or not safely."""


class TestsError(HintedError, ValueError):
    """Says that tests are at fault, whatever the program: no program could pass them, or each would."""
