"""Serve the dashboard to browsers through textual-serve: one dashboard process per page.

A visitor can do whatever this user can. On a loopback address only this user and root can open it,
if the kernel tells the user of a connection; any other address needs a token. Requests from pages
of other sites are refused, because a browser would let them through.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from edgecron.base.bundle import hint_for_extra
from edgecron.base.errors import NotSupported, UsageError
from edgecron.base.files import MAKE
from edgecron.base.sockets import find_user_of, own_users, tells_users
from edgecron.base.values import NamedTuple

_PLACE = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/\s]+):)?(?P<port>[0-9]{1,5})")
_END_S = 5.0  # the wait for the ends of pages
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Fetch nothing from other sites, and let no other site show the page in a frame.
_POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; style-src 'self' 'unsafe-inline';"
    " script-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
    " frame-ancestors 'none'"
)
_ASKS_FOR_TOKEN = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>edgecron</title>
<form method="post" action="/" style="font-family: sans-serif; margin: 4em auto; width: 20em">
<label>edgecron: token <input type="password" name="token" autofocus></label>
<button>Open</button>
</form>
</html>
"""


# The page of textual-serve has no title, takes a font from another site, and ignores keys before a
# click.
_FONT = re.compile(r'<link[^>]*href="https?://[^"]*"[^>]*>\s*')
_HEAD = """<head>
    <meta charset="utf-8">
    <title>edgecron</title>
    <style>
      @font-face {
        font-family: "Roboto Mono"; font-weight: 100 700;
        src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf");
      }
    </style>
    <script>
      const focusTerminal = () => document.querySelector(".xterm-helper-textarea")?.focus();
      addEventListener("focus", focusTerminal);
      addEventListener("load", () => new MutationObserver(focusTerminal).observe(
        document.body, {attributes: true, attributeFilter: ["class"]}));
    </script>
"""


def mend_page(html: str) -> str:
    """Give the page a title, fonts of this server only, and keys that work without a click."""
    return _FONT.sub("", html).replace("<head>\n", _HEAD, 1)


class WebAddress(NamedTuple):
    """A host, without brackets, and a port."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host in _LOOPBACK or ip_address(self.host).is_loopback
        except ValueError:
            return False  # A name can point to another machine tomorrow.

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def read_address(text: str) -> WebAddress:
    """Read `8080` or `0.0.0.0:8080`. Raises UsageError."""
    found = _PLACE.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise UsageError(
            f"--web is {text!r}, expected a port or a host and a port",
            hint="such as --web 8080 or --web 127.0.0.1:8080",
        )
    host = (found["host"] or _LOOPBACK[0]).strip("[]")
    return WebAddress(host, int(found["port"]))


class TokenLogin:
    """Ask each browser once for the token; then recognize it by a cookie of this server."""

    def __init__(self, token: str, *, port: int) -> None:
        self._token = token
        self._pass = secrets.token_urlsafe(32)
        self._cookie = f"edgecron-{port}"  # Cookies do not distinguish ports.

    def is_open_to(self, cookies: Mapping[str, str], authorization: str) -> bool:
        """Return whether a request has the cookie, or `Authorization: Bearer TOKEN`."""
        kind, _, given = authorization.partition(" ")
        has_token = kind.lower() == "bearer" and self.opens_with(given.strip())
        return has_token or _is_same(cookies.get(self._cookie, ""), self._pass)

    def opens_with(self, given: str) -> bool:
        """Return whether this is the token."""
        return _is_same(given, self._token)

    @property
    def cookie(self) -> str:
        """The Set-Cookie header for a browser; no script and no other site can use the cookie."""
        return f"{self._cookie}={self._pass}; Path=/; HttpOnly; SameSite=Strict"


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def check_served(address: WebAddress, *, has_token: bool) -> None:
    """Raise UsageError for an address that other machines reach, if there is no token."""
    if not address.is_local and not has_token:
        raise UsageError(
            f"{address.url} is reachable from other machines,"
            " and the dashboard runs commands as you",
            hint=f"make a token, {MAKE}, and give --token-file FILE; or serve 127.0.0.1",
        )


def users_of(address: WebAddress) -> Collection[int] | None:
    """Return the ids of the users who can open it; None for everybody who reaches it."""
    return own_users() if address.is_local and tells_users() else None


def session_command(given: Sequence[str], *, color: str | None) -> str:
    """Return the shell line of one page's dashboard; `given` names the database."""
    options = [*given, *(() if color is None else ("--color", color))]
    return shlex.join(["exec", sys.executable, "-P", "-m", "edgecron", *options, "tui"])


def serve(
    address: WebAddress, command: str, *, token: str | None, ready: Callable[[], None]
) -> None:
    """Serve until a signal comes; call `ready` when pages can be opened.

    With a token, browsers ask for it, and programs send it as a bearer token. Raises NotSupported
    without textual-serve, and OSError if the address is taken.
    """
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError as error:
        raise NotSupported(
            "the dashboard in a browser needs textual-serve, which is not installed",
            hint=hint_for_extra("web"),
        ) from error
    # Log problems on stderr, not requests.
    logging.basicConfig(level=logging.WARNING)
    server = Server(command, host=address.host, port=address.port, title="edgecron")

    users = users_of(address) if token is None else None
    login = None if token is None else TokenLogin(token, port=address.port)
    pages: set[asyncio.Task[Any]] = set()

    async def guarded(request: Any, handler: Callable[[Any], Any]) -> Any:
        if not is_request_allowed(address, host=request.host, origin=request.headers.get("Origin")):
            raise web.HTTPForbidden(text="edgecron: this page can't be opened from another site\n")
        if users is not None and _user_of(request) not in users:
            raise web.HTTPForbidden(
                text="edgecron: this dashboard belongs to another user of this machine\n"
            )
        if login is not None and not login.is_open_to(
            request.cookies, request.headers.get("Authorization", "")
        ):
            return await ask_for_token(login, request)
        # The page loads its parts from the host name that the browser used.
        server.public_url = f"http://{request.host}"
        task = asyncio.current_task()
        if request.path == "/ws" and task is not None:
            pages.add(task)
            task.add_done_callback(pages.discard)
        response = await handler(request)
        if not response.prepared:
            if response.content_type == "text/html" and response.text:
                response.text = mend_page(response.text)
            response.headers["Content-Security-Policy"] = _POLICY
        return response

    async def ask_for_token(login: TokenLogin, request: Any) -> Any:
        """Accept a browser that sent the token; ask any other one for it."""
        if request.method == "POST" and request.path == "/":
            given = (await request.post()).get("token", "")
            if isinstance(given, str) and login.opens_with(given.strip()):
                headers = {"Location": "/", "Set-Cookie": login.cookie}
                return web.Response(status=303, headers=headers)
        headers = {
            "WWW-Authenticate": 'Bearer realm="edgecron"',
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "no-store",
        }
        return web.Response(
            status=401, text=_ASKS_FOR_TOKEN, content_type="text/html", headers=headers
        )

    async def end_pages(_: Any) -> None:
        for page in pages:
            page.cancel()
        if pages:
            await asyncio.wait(pages, timeout=_END_S)

    async def made() -> Any:
        application = await server._make_app()
        application.middlewares.append(web.middleware(guarded))
        application.on_startup.clear()  # It would print a banner.
        application.on_shutdown.append(end_pages)
        return application

    web.run_app(made(), host=address.host, port=address.port, print=lambda *_: ready())


def _user_of(request: Any) -> int | None:
    """Return the user of the browser; None if unknown, as after it has gone."""
    transport = request.transport
    link = None if transport is None else transport.get_extra_info("socket")
    return None if link is None else find_user_of(link)


def is_request_allowed(address: WebAddress, *, host: str, origin: str | None) -> bool:
    """Return whether the Host and Origin headers show a request for our own page.

    On a loopback address, Host must be a loopback name: any other is a site that points its name
    here. Origin must be our own page.
    """
    name = re.sub(r":[0-9]+$", "", host).strip("[]").lower()
    if address.is_local and name not in (*_LOOPBACK, address.host):
        return False
    return origin is None or origin.lower() == f"http://{host.lower()}"
