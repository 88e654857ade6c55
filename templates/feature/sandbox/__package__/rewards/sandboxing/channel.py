# vextract:template
"""Messages over a pair of pipes: a length of four bytes, and so many bytes."""

import os
import struct

HEADER = struct.Struct(">I")


class ChannelClosed(EOFError):
    """The other side has closed the channel, or said more than it may."""


def send(descriptor: int, data: bytes) -> None:
    """Send a message; raises ChannelClosed."""
    rest = memoryview(HEADER.pack(len(data)) + data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BrokenPipeError as error:
        raise ChannelClosed("the other side is gone") from error


def receive(descriptor: int, limit: int) -> bytes:
    """Receive a message of at most `limit` bytes, reading nothing of the next one; raises ChannelClosed."""
    (length,) = HEADER.unpack(_exactly(descriptor, HEADER.size))
    if length > limit:
        raise ChannelClosed(f"a message of {length} bytes, and at most {limit} may be")
    return _exactly(descriptor, length)


def _exactly(descriptor: int, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = os.read(descriptor, min(length - len(parts), 1 << 20))
        if not part:
            raise ChannelClosed("the other side is gone")
        parts += part
    return bytes(parts)
