"""The type of a source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from extractor.values import readers
from extractor.values.errors import SourceError

SourceKind = Literal["wheel", "checkout", "installed"]


@dataclass(frozen=True)
class Source:
    """One release of verl.

    Attributes:
        release: "0.6.1", as the source itself says.
        kind: Where it came from.
        sha256: Hex digest of the wheel; for a directory that of its Python files and licence.
        files: The files below verl/, by POSIX path ("verl/protocol.py"), sorted.
        licence: Text of the licence.
        notice: Text of the notice file, where the source has one.
        filename: The name of the wheel; empty for a directory.
        requires: What the distribution says that it requires, without extras, as PEP 508 requirements; None where the
            source does not say.
    """

    release: str
    kind: SourceKind
    sha256: str
    files: Mapping[str, bytes] = field(repr=False)
    licence: str = field(repr=False)
    notice: str | None = field(repr=False, default=None)
    requires: tuple[str, ...] | None = field(repr=False, default=None)
    filename: str = ""

    def read(self, path: str) -> str:
        """Return a file's text, line ends kept, without byte order mark.

        Raises:
            SourceError: no such file, not UTF-8, or too large.
        """
        data = self.files.get(path)
        if data is None:
            raise SourceError(
                f"verl {self.release} has no file {path}", hint="check that the source is an unmodified release of verl"
            )
        try:
            return readers.decode_python(data) if path.endswith(".py") else readers.decode(data)
        except SyntaxError as error:
            place, problem = f"{path}:{error.lineno}" if error.lineno else path, error.msg
        except OSError as error:
            place, problem = path, error.strerror or ""
        raise SourceError(f"{place}: {problem}", hint="check that the source is an unmodified release of verl")

    @property
    def lines(self) -> int:
        """Count the lines of all Python files below verl/."""
        return sum(data.count(b"\n") for path, data in self.files.items() if path.endswith(".py"))

    def materialise(self, dest: Path) -> None:
        """Write verl/ into a directory for Python to import.

        Args:
            dest: A directory that is empty or does not exist.
        """
        dest.mkdir(parents=True, exist_ok=True)
        if any(dest.iterdir()):
            raise ValueError(f"{dest} is not empty")
        for path, data in self.files.items():
            target = dest / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
