"""Which handler answers which method and path."""

from __future__ import annotations

from edgecron.http.asking import Route
from edgecron.http.health import get_health

# Other parts of edgecron add theirs here: `calls` for the command line elsewhere, `/metrics`.
ROUTES: tuple[Route, ...] = (Route(method="GET", path="/healthz", handle=get_health),)
