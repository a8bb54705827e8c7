"""Send a message over the channel of a rule: a program, mail, a webhook, or a ping.

Each raises ChannelFailed with a reason that people can act on. No reason names a secret.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import smtplib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import quote

import edgecron
from edgecron.base.bundle import hint_for_extra
from edgecron.base.clock import SystemClock
from edgecron.base.errors import EdgecronError, os_words
from edgecron.base.paths import user_name
from edgecron.base.safetext import clean
from edgecron.base.values import dataclass
from edgecron.model.notices import (
    AppriseChannel,
    Channel,
    CommandChannel,
    EmailChannel,
    MailSecurity,
    PingChannel,
    Secret,
    WebhookChannel,
)

TIMEOUT_S = 30.0
_MOST_SECRET_BYTES = 16 * 1024
_MOST_ANSWER_BYTES = 4096
_SENDMAIL = ("/usr/sbin/sendmail", "/usr/lib/sendmail")
# Of the engine's environment, what a program of a channel gets: a desktop notice needs the bus.
_PASSED_VARIABLES = (
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "DISPLAY", "WAYLAND_DISPLAY"),
    *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
)


class ChannelFailed(EdgecronError):
    """A message could not be sent."""

    code = "channel_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Notices that are sent together. `id` stays the same if it is sent again.

    `body` is the message as JSON. A ping has the `path` that its protocol adds to the address, the
    `run` as a UUID, and the `schedule`.
    """

    id: str
    subject: str
    text: str
    body: Mapping[str, object]
    schedule: str = ""
    path: str = ""
    run: str = ""


def send(channel: Channel, message: Message, *, timeout_s: float = TIMEOUT_S) -> None:
    """Send a message: a server has `timeout_s` in all. Raises ChannelFailed."""
    with _Limit(timeout_s) as limit:
        try:
            _send(channel, message, limit)
        except ChannelFailed:
            raise
        except (OSError, smtplib.SMTPException, http.client.HTTPException) as error:
            if limit.has_passed or isinstance(_inner(error), TimeoutError):
                raise ChannelFailed(f"no answer within {timeout_s:g} s") from None
            if isinstance(error, smtplib.SMTPException):
                said = _smtp_words(error)
                raise ChannelFailed(f"the mail server refused it: {said}") from None
            raise ChannelFailed(_words_of(error), hint=_hint_of(error)) from None
        except Exception as error:
            # Else one channel would end the process, and with it the notices of all other rules.
            # The words of the error are not kept: they can hold a part of a secret.
            raise ChannelFailed(f"it could not be sent: {type(error).__name__}") from error


class _Limit:
    """One time limit for a whole delivery. At its end, the connections are shut down.

    A timeout of a socket is for each of its calls: a server that answers byte by byte never
    reaches it.
    """

    def __init__(self, timeout_s: float) -> None:
        self.has_passed = False
        self._clock = SystemClock()
        self._end_ms = self._clock.monotonic_ms() + round(1000 * timeout_s)
        self._opened: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(timeout_s, self._pass)
        self._timer.name = "edgecron-limit"

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for link in self._opened:
            link.close()

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Connect to a server, as `socket.create_connection` does."""
        host, port = address
        problem: OSError = TimeoutError()
        for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            left_ms = self._end_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError
            try:
                link = socket.create_connection((str(found[4][0]), port), timeout=left_ms / 1000)
            except OSError as error:
                problem = error
                continue
            with self._lock:
                # Its own descriptor: TLS takes over that of the connection.
                self._opened.append(link.dup())
                if self.has_passed:
                    link.close()
                    raise TimeoutError
            return link
        raise problem

    def _pass(self) -> None:
        with self._lock:
            self.has_passed = True
            for link in self._opened:
                with suppress(OSError):  # It has ended by itself.
                    link.shutdown(socket.SHUT_RDWR)


def _send(channel: Channel, message: Message, limit: _Limit) -> None:
    match channel:
        case CommandChannel():
            _run(channel, message)
        case EmailChannel():
            _mail(channel, message, limit)
        case WebhookChannel():
            _post(channel, message, limit)
        case PingChannel():
            _ping(channel, message, limit)
        case AppriseChannel():
            _apprise(channel, message)


def read_secret(secret: Secret) -> str:
    """Return the text of a secret, without blanks at its ends. Raises ChannelFailed."""
    if secret.kind == "text":
        return secret.value
    if secret.kind == "env":
        found = os.environ.get(secret.value, "").strip()
        if not found:
            raise ChannelFailed(f"variable {secret.value} is not set in the engine's environment")
        return found
    path = Path(secret.value).expanduser()
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_SECRET_BYTES)
        found = content.decode().strip()
    except (OSError, ValueError) as error:
        is_ours = isinstance(error, OSError)
        words = os_words(error, is_named=True) if is_ours else "it is not UTF-8"
        raise ChannelFailed(f"file {path} can't be read: {words}") from None
    if not found:
        raise ChannelFailed(f"file {path} is empty")
    return found


def _run(channel: CommandChannel, message: Message) -> None:
    environ = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    environ["PATH"] = os.environ.get("PATH") or os.defpath
    environ["EDGECRON_NOTICE_SUBJECT"] = message.subject
    environ["EDGECRON_NOTICE_TEXT"] = message.text[:8000]
    _pipe_to(
        f"command {channel.argv[0]!r}", channel.argv, _json_bytes(message.body), environ=environ
    )


def _scratch_file() -> IO[bytes]:
    """Open a file without a name: in memory if the system can, as a disk can be full."""
    if sys.platform == "linux":
        return open(os.memfd_create("edgecron"), "w+b")
    return tempfile.TemporaryFile()


def _pipe_to(
    name: str, argv: Sequence[str], content: bytes, *, environ: Mapping[str, str] | None = None
) -> None:
    """Run a program that reads the content. Raises ChannelFailed if it fails."""
    # What it prints goes to a file: a program that it leaves in the background keeps a pipe open.
    with _scratch_file() as printed:
        try:
            ended = subprocess.run(
                argv,
                input=content,
                stdout=subprocess.DEVNULL,
                stderr=printed,
                env=environ,
                cwd=os.path.expanduser("~"),
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ChannelFailed(f"{name} took longer than {TIMEOUT_S:.0f} s") from None
        if ended.returncode == 0:
            return
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - _MOST_ANSWER_BYTES))
        lines = printed.read().decode("utf-8", "replace").strip().splitlines()
    said = clean(lines[-1][:200]) if lines else "it printed no error"
    raise ChannelFailed(f"{name} ended with code {ended.returncode}: {said}")


class _LimitedSmtp(smtplib.SMTP):
    """A mail server within the time limit of a delivery."""

    def __init__(self, limit: _Limit, *address: Any, **options: Any) -> None:
        self._limit = limit
        super().__init__(*address, **options)

    def _get_socket(self, host: str, port: int, *_: object) -> socket.socket:
        return self._limit.connect((host, port))


class _LimitedSmtps(_LimitedSmtp, smtplib.SMTP_SSL):
    """The same with TLS from the start."""

    def _get_socket(self, host: str, port: int, *_: object) -> socket.socket:
        return self.context.wrap_socket(self._limit.connect((host, port)), server_hostname=host)


def _mail(channel: EmailChannel, message: Message, limit: _Limit) -> None:
    mail = EmailMessage()
    sender = channel.sender or f"{user_name()}@{socket.getfqdn()}"
    mail["From"] = sender
    mail["To"] = ", ".join(channel.to)
    mail["Subject"] = message.subject
    mail["Date"] = formatdate(localtime=True)
    # A mail that is sent again has the same id, so that servers and readers can drop it.
    # The domain stays the same, too: a full name would come from the network.
    mail["Message-ID"] = f"<{message.id}@{clean(socket.gethostname())}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    if channel.host is None:
        _pipe_to_sendmail(mail, channel)
        return
    if channel.security is MailSecurity.TLS:
        server: _LimitedSmtp = _LimitedSmtps(
            limit, channel.host, channel.port, context=ssl.create_default_context()
        )
    else:
        server = _LimitedSmtp(limit, channel.host, channel.port)
    try:
        if channel.security is MailSecurity.STARTTLS:
            server.starttls(context=ssl.create_default_context())
        if channel.username is not None and channel.password is not None:
            server.login(channel.username, read_secret(channel.password))
        server.send_message(mail, from_addr=sender, to_addrs=list(channel.to))
        with suppress(OSError, smtplib.SMTPException):
            server.quit()  # The server has taken the mail, whatever it says now.
    finally:
        server.close()


def _pipe_to_sendmail(mail: EmailMessage, channel: EmailChannel) -> None:
    program = next((path for path in _SENDMAIL if os.access(path, os.X_OK)), None)
    if program is None:
        raise ChannelFailed("this machine has no sendmail; name a mail server: smtp = 'HOST:PORT'")
    _pipe_to(program, [program, "-i", "--", *channel.to], mail.as_bytes())


def _post(channel: WebhookChannel, message: Message, limit: _Limit) -> None:
    forms: dict[str, object] = {
        "slack": {"text": _slack_text(f"*{message.subject}*\n{message.text}")},
        "discord": {
            "content": f"**{message.subject}**\n{message.text}"[:2000],
            "allowed_mentions": {"parse": []},  # A job that prints @everyone calls nobody.
        },
    }
    body = _json_bytes(forms.get(channel.format, message.body))
    headers = {"Content-Type": "application/json", "X-Edgecron-Message": message.id}
    if channel.secret is not None:
        key = read_secret(channel.secret).encode()
        digest = hmac.new(key, body, hashlib.sha256).hexdigest()
        headers["X-Edgecron-Signature"] = f"sha256={digest}"
    _request(read_secret(channel.url), body, headers, limit)


def _slack_text(text: str) -> str:
    """Return a text as Slack shows it literally: without links and calls such as <!channel>."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _ping(channel: PingChannel, message: Message, limit: _Limit) -> None:
    url = read_secret(channel.url).replace("{schedule}", quote(message.schedule, safe=""))
    address, _, query = url.partition("?")
    query = "&".join(part for part in (query, f"rid={message.run}") if part)
    _request(f"{address.rstrip('/')}{message.path}?{query}", message.text.encode(), {}, limit)


def _apprise(channel: AppriseChannel, message: Message) -> None:
    try:
        import apprise  # An extra.
    except ImportError:
        hint = hint_for_extra("apprise")
        raise ChannelFailed(f"apprise is not installed: {hint}") from None
    services = apprise.Apprise()
    for number, url in enumerate(read_secret(channel.urls).splitlines(), 1):
        if url.strip() and not services.add(url.strip()):
            raise ChannelFailed(f"apprise can't read address {number}")  # It can be a secret.
    if not services.notify(title=message.subject, body=message.text):
        raise ChannelFailed("a service did not take the message; to see why, use apprise -vv")


class _Moved(urllib.request.HTTPRedirectHandler):
    """Refuse an address that has moved for good: the new one would get a GET without the message.

    A temporary redirect is followed: some services answer so to a message that they took.
    """

    def http_error_301(self, req: object, answer: IO[bytes], *_: object) -> None:
        answer.close()
        raise ChannelFailed("the server answered 301: its address has moved")


class _Limited(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connect within the time limit of a delivery."""

    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._opener_of(http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._opener_of(http.client.HTTPSConnection), req)

    def _opener_of(self, kind: type[http.client.HTTPConnection]) -> Any:
        def make(host: str, **options: Any) -> Any:
            connection: Any = kind(host, **options)
            connection._create_connection = self._limit.connect
            return connection

        return make


def _request(url: str, body: bytes, headers: Mapping[str, str], limit: _Limit) -> None:
    if not url.startswith(("http://", "https://")):
        raise ChannelFailed("the address does not begin with http:// or https://")
    request = urllib.request.Request(
        url, body, {"User-Agent": f"edgecron/{edgecron.__version__}", **headers}, method="POST"
    )
    try:
        opener = urllib.request.build_opener(_Moved, _Limited(limit))
        # The server has then taken the message, whatever the rest of its answer says.
        opener.open(request).close()
    except urllib.error.HTTPError as error:
        said = clean(error.read(200).decode("utf-8", "replace").strip())
        error.close()
        raise ChannelFailed(f"the server answered {error.code}: {said or error.reason}") from None
    except ValueError:
        raise ChannelFailed("the address is not usable") from None


def _json_bytes(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _smtp_words(error: smtplib.SMTPException) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        said: Any = error.smtp_error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return clean(f"{error.smtp_code} {text}"[:200])
    return clean(str(error)[:200])


def _inner(error: Exception) -> Exception:
    """The error of the network within one of urllib."""
    inner = getattr(error, "reason", None)
    return inner if isinstance(inner, Exception) else error


def _hint_of(error: Exception) -> str | None:
    if isinstance(_inner(error), ssl.SSLCertVerificationError):
        return "to trust your own certificate, set SSL_CERT_FILE to its file, also for the engine"
    return None


def _words_of(error: Exception) -> str:
    found = _inner(error)
    if isinstance(found, socket.gaierror):
        return "the name of the server is unknown, or the network is down"
    if isinstance(found, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {clean(found.verify_message)}"
    if isinstance(found, ssl.SSLError):
        return f"TLS failed: {clean(str(found)[:200])}"
    if isinstance(found, OSError) and found.strerror:
        return os_words(found)
    return clean(str(found)[:200]) or type(found).__name__
