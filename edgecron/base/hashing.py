"""BLAKE2b and SHA-256, without `hashlib`: that maps four megabytes of OpenSSL into every engine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    # An interpreter may be built without its own.
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
