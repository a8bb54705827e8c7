"""BLAKE2b and SHA-256 from Python's own modules.

`hashlib` loads OpenSSL, which adds 3.8 MB to the 30 MB of an engine, and 2.6 ms to each command.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    # Some distributions build Python without its own hashes.
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

__all__ = ["blake2b", "sha256"]
