"""BLAKE2b, without `hashlib`: that maps four megabytes of OpenSSL into every engine."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter that was built without its own
    from hashlib import blake2b

__all__ = ["blake2b"]
