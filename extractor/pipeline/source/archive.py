"""Read a wheel in memory, trusting nothing in it."""

import io
import re
import stat
import zipfile
from collections.abc import Iterable, Mapping
from hashlib import sha256

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from extractor.pipeline.source.source import Source, SourceKind
from extractor.values import limits, readers
from extractor.values.errors import SourceError

# How each entry of a zip archive's directory begins.
_ENTRY = b"PK\x01\x02"
_LICENCE = ("license", "license.txt", "license.md", "licence")
_NOTICE = ("notice.txt", "notice", "notice.md")


def compute_digest(data: bytes) -> str:
    """Return hex sha256."""
    return sha256(data).hexdigest()


def release_in_name(filename: str) -> str | None:
    """Return the version in a wheel's file name, or None."""
    try:
        name, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    return str(version) if name == "verl" else None


def read_zip(data: bytes, name: str) -> dict[str, bytes]:
    """Return the files of a wheel.

    Raises:
        SourceError: damaged, or made to do harm.
    """
    # The directory of an archive is read whole before anybody can count its entries.
    if data.count(_ENTRY) > 2 * limits.MAX_MEMBERS:
        raise _explain_hostile(name, f"it has more than {limits.MAX_MEMBERS:,} files")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            _check_names((member.filename for member in members), name)
            for member in members:
                _check_zip_member(member, name)
            if sum(member.file_size for member in members) > limits.MAX_UNPACKED:
                raise _explain_too_large(name)
            if sum(member.compress_size for member in members) > len(data):
                raise _explain_hostile(name, "its files overlap")
            return {member.filename: archive.read(member) for member in members}
    except readers.ZIP_ERRORS as error:
        raise _explain_damaged(name, error) from None


def build_source(members: Mapping[str, bytes], kind: SourceKind, sha: str, name: str) -> Source:
    """Build a source from files relative to the parent of verl/.

    Raises:
        SourceError: they are not verl.
    """
    if "verl/__init__.py" not in members:
        raise _explain_foreign(name, "it has no verl/__init__.py")
    licence = _read_text_of(members, _LICENCE)
    if licence is None:
        raise SourceError(
            f"{name}: holds no licence text, which every project made from it has to carry",
            hint="pass a wheel or a complete checkout of verl",
        )
    return Source(
        release=_read_release(members, name),
        kind=kind,
        sha256=sha,
        files=_select_below("verl/", members),
        licence=licence,
        notice=_read_text_of(members, _NOTICE),
        requires=_read_requirements(members),
    )


def _check_zip_member(member: zipfile.ZipInfo, name: str) -> None:
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise _explain_hostile(name, f"{member.filename} is a link or a device")
    if member.flag_bits & 0x1:
        raise _explain_hostile(name, f"{member.filename} is encrypted")
    if member.file_size > max(limits.SMALL_MEMBER, limits.MAX_RATIO * member.compress_size):
        raise _explain_hostile(name, f"{member.filename} unpacks to {member.file_size:,} bytes")


def _check_names(names: Iterable[str], archive: str) -> None:
    seen: set[str] = set()
    for name in names:
        if not readers.is_plain_path(name):
            raise _explain_hostile(archive, f"unsafe path {readers.show_path(name)}")
        if name in seen:
            raise _explain_hostile(archive, f"{name} stands twice")
        seen.add(name)
    if len(seen) > limits.MAX_MEMBERS:
        raise _explain_hostile(archive, f"it has more than {limits.MAX_MEMBERS:,} files")
    clash = readers.find_clash(seen)
    if clash:
        raise _explain_hostile(archive, clash)


def _select_below(prefix: str, members: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: members[path] for path in sorted(members) if path.startswith(prefix)}


def _read_text_of(members: Mapping[str, bytes], names: tuple[str, ...]) -> str | None:
    """Return a named top-level or dist-info file's text, or None."""
    for path in sorted(members, key=lambda path: (path.count("/"), path)):
        top, _, rest = path.rpartition("/")
        if rest.lower() in names and (not top or re.fullmatch(r"verl-[^/]+\.dist-info(/licenses)?", top)):
            return members[path].decode("utf-8", errors="replace")
    return None


def _read_requirements(members: Mapping[str, bytes]) -> tuple[str, ...] | None:
    text = _read_text_of(members, ("metadata", "pkg-info"))
    if text is None:
        return None
    header = text.partition("\n\n")[0]
    lines = re.findall(r"^Requires-Dist: *(.+?)\s*$", header, re.MULTILINE)
    return tuple(sorted(line for line in lines if "extra ==" not in line))


def _read_release(members: Mapping[str, bytes], name: str) -> str:
    stated = members.get("verl/version/version")
    text = stated.decode("utf-8", errors="replace").strip() if stated is not None else ""
    if not re.fullmatch(r"\d+(\.\w+)*", text):
        raise _explain_foreign(name, "verl/version/version is missing or no release number")
    return text


def _explain_hostile(name: str, why: str) -> SourceError:
    return SourceError(f"{name}: refused: {why}", hint="this is no archive of verl as released; get it again")


def _explain_too_large(name: str) -> SourceError:
    return _explain_hostile(name, f"it unpacks to more than {readers.write_size(limits.MAX_UNPACKED)}")


def _explain_damaged(name: str, error: Exception) -> SourceError:
    return SourceError(f"{name}: damaged archive: {error}", hint="get it again; it may be truncated")


def _explain_foreign(name: str, why: str) -> SourceError:
    return SourceError(
        f"{name}: not a source of verl: {why}",
        hint="pass a wheel, a checkout (the directory that holds verl/) or an installed verl",
    )
