"""The name of a database, which `cp` copies and a restored copy changes."""

from __future__ import annotations

import os


def new_uuid() -> str:
    """A random UUID, version 4. The module `uuid` makes the same, and loads 400 KB for it."""
    digits = bytearray(os.urandom(16))
    digits[6] = digits[6] & 0x0F | 0x40
    digits[8] = digits[8] & 0x3F | 0x80
    text = digits.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
