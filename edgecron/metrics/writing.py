"""Metrics as text: Prometheus' own, or OpenMetrics where that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from edgecron.errors import NotSupported

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from edgecron.api import Client

_EOF = b"# EOF\n"
_OPEN = "application/openmetrics-text"


class _OneFamily:
    """What the library takes for a registry: one family, or a slice of it."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


class _Format(NamedTuple):
    content_type: str
    write: Callable[[_OneFamily], bytes]
    ending: bytes


def exposition(client: Client, accept: str | None) -> tuple[bytes, str]:
    """All metrics as text, and its content type, as an Accept header asks for it.

    Raises NotSupported where the library is missing.
    """
    content_type, parts = exposition_parts(client, accept)
    return b"".join(parts), content_type


def exposition_parts(client: Client, accept: str | None) -> tuple[str, Iterator[bytes]]:
    """The same in parts, for what is too much to be held at once."""
    form = _format_of(accept)
    from edgecron.metrics.families import families

    return form.content_type, _parts(families(client), form)


def _parts(found: Iterable[Metric], form: _Format) -> Iterator[bytes]:
    before = None
    for family in found:
        text = form.write(_OneFamily(family)).removesuffix(form.ending)
        if family.name == before:
            text = _without_head(text)  # One name has one head, whatever the slices.
        before = family.name
        yield text
    yield form.ending


def _without_head(text: bytes) -> bytes:
    while text.startswith(b"#"):
        _, _, text = text.partition(b"\n")
    return text


def _format_of(accept: str | None) -> _Format:
    """By the first that is known of what is accepted, as Prometheus' own libraries choose."""
    try:
        from prometheus_client import exposition as plain
        from prometheus_client.openmetrics import exposition as openmetrics
    except ImportError as error:
        raise NotSupported(
            "metrics need prometheus-client, which is not installed",
            hint="pip install 'edgecron[http]', or 'edgecron[metrics]' for them alone",
        ) from error
    for one in (accept or "").split(","):
        wanted = one.partition(";")[0].strip().lower()
        if wanted == "text/plain":
            break
        if wanted == _OPEN:
            # No name of ours needs to be escaped, and looking at each letter takes long.
            write = partial(openmetrics.generate_latest, escaping=openmetrics.ALLOWUTF8)
            return _Format(openmetrics.CONTENT_TYPE_LATEST, write, _EOF)
    write = partial(plain.generate_latest, escaping=openmetrics.ALLOWUTF8)
    return _Format(plain.CONTENT_TYPE_PLAIN_0_0_4, write, b"")
