"""Channels of notices, with real servers and programs: what arrives, and how they fail."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import signal
import socketserver
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.bundle import hint_for_extra
from edgecron.client.notice_channels import ChannelFailed, Message, send
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

MESSAGE = Message(
    id="7b9c.4",
    subject="[pi] nightly failed",
    text="nightly failed\nRun 4 started.\n",
    body={"id": "7b9c.4", "rule": "ops", "notices": [{"schedule": "nightly"}]},
    schedule="night ly",
    path="/start",
    run="5f0c",
)


class Received(BaseHTTPRequestHandler):
    """Keep each request; answer with the status that the path ends with, else 200."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        self.server.requests.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        last = self.path.rpartition("/")[2]
        status = int(last) if last.isdigit() else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"no such\x1b[2Jhook")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def web_server(answers: type[Received] = Received) -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), answers) as server:
        server.requests = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="web")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def url_of(server: Any, path: str = "/hook") -> Secret:
    return Secret("text", f"http://127.0.0.1:{server.server_address[1]}{path}")


def test_a_webhook_gets_the_message_with_a_signature(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("hunter2\n")
    with web_server() as server:
        channel = WebhookChannel(url=url_of(server), secret=Secret("file", str(key)))
        send(channel, MESSAGE)
        [(path, headers, body)] = server.requests

    assert path == "/hook"
    assert json.loads(body) == MESSAGE.body
    signature = hmac.new(b"hunter2", body, hashlib.sha256).hexdigest()
    assert headers["X-Edgecron-Signature"] == f"sha256={signature}"
    assert headers["X-Edgecron-Message"] == "7b9c.4"


@pytest.mark.parametrize(("form", "key"), [("slack", "text"), ("discord", "content")])
def test_a_chat_service_gets_its_own_form(form: str, key: str) -> None:
    with web_server() as server:
        send(WebhookChannel(url=url_of(server), format=form), MESSAGE)
        [(_, _, body)] = server.requests

    assert "nightly failed" in json.loads(body)[key]


@pytest.mark.parametrize("form", ["slack", "discord"])
def test_words_of_a_job_call_nobody_in_a_chat(form: str) -> None:
    loud = replace(MESSAGE, text="a & b <!channel> @everyone")
    with web_server() as server:
        send(WebhookChannel(url=url_of(server), format=form), loud)
        [(_, _, body)] = server.requests

    sent = json.loads(body)
    if form == "slack":
        assert sent["text"].endswith("a &amp; b &lt;!channel&gt; @everyone")
    else:
        assert sent["allowed_mentions"] == {"parse": []}


class Movable(Received):
    """Answer each message with a redirect, and take what follows."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path.rpartition("/")[2]))
        self.send_header("Location", "/taken")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def test_an_address_that_has_moved_is_a_failure_as_the_message_would_be_lost() -> None:
    with web_server(Movable) as server:
        with pytest.raises(ChannelFailed) as caught:
            send(WebhookChannel(url=url_of(server, "/301")), MESSAGE)
        send(WebhookChannel(url=url_of(server, "/302")), MESSAGE)  # Taken, and answered elsewhere.

    assert caught.value.message == "the server answered 301: its address has moved"


def test_a_ping_has_the_schedule_the_kind_and_the_run() -> None:
    with web_server() as server:
        send(PingChannel(url=url_of(server, "/key/{schedule}")), MESSAGE)
        [(path, _, body)] = server.requests

    assert path == "/key/night%20ly/start?rid=5f0c"
    assert body == MESSAGE.text.encode()


def test_an_answer_that_refuses_is_a_failure_and_made_safe() -> None:
    with web_server() as server, pytest.raises(ChannelFailed) as caught:
        send(WebhookChannel(url=url_of(server, "/404")), MESSAGE)

    assert "the server answered 404: no such" in caught.value.message
    assert "\x1b" not in caught.value.message


def test_a_server_that_is_not_there_is_a_failure_without_its_address() -> None:
    with pytest.raises(ChannelFailed) as caught:
        send(WebhookChannel(url=Secret("text", "http://127.0.0.1:9/secret")), MESSAGE)

    assert caught.value.message == "connection refused"


def test_a_command_gets_json_and_words(tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = f'cat > {out}; echo "$EDGECRON_NOTICE_SUBJECT" >> {out}'

    send(CommandChannel(argv=("/bin/sh", "-c", line)), MESSAGE)

    body, _, subject = out.read_text().rpartition("}")
    assert json.loads(body + "}") == MESSAGE.body
    assert subject.strip() == MESSAGE.subject


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("/bin/sh", "-c", "echo oh no >&2; exit 4"), "ended with code 4: oh no"),
        (("/bin/sh", "-c", "exit 4"), "ended with code 4: it printed no error"),
        (("/no/such/program",), "no such file or directory"),
    ],
)
def test_a_command_that_fails_says_why(argv: tuple[str, ...], said: str) -> None:
    with pytest.raises(ChannelFailed) as caught:
        send(CommandChannel(argv=argv), MESSAGE)

    assert said in caught.value.message


def test_a_command_ends_although_it_leaves_a_program_in_the_background() -> None:
    line = "sleep 40 & echo $! >&2; exit 3"

    with pytest.raises(ChannelFailed) as caught:
        send(CommandChannel(argv=("/bin/sh", "-c", line)), MESSAGE)

    failed, _, pid = caught.value.message.rpartition(": ")
    os.kill(int(pid), signal.SIGTERM)
    assert failed.endswith("ended with code 3")


def test_a_command_sees_no_secret_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_URL", "http://secret")
    out = tmp_path / "out"

    send(CommandChannel(argv=("/bin/sh", "-c", f"env > {out}")), MESSAGE)

    assert "secret" not in out.read_text()


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (Secret("env", "NO_SUCH_VARIABLE"), "variable NO_SUCH_VARIABLE is not set"),
        (Secret("file", "/no/such/file"), "file /no/such/file can't be read"),
    ],
)
def test_a_secret_that_is_missing_is_named(secret: Secret, said: str) -> None:
    with pytest.raises(ChannelFailed) as caught:
        send(WebhookChannel(url=secret), MESSAGE)

    assert said in caught.value.message


class Mail(socketserver.StreamRequestHandler):
    """An SMTP server for one mail; it refuses recipients that begin with `no`."""

    def handle(self) -> None:
        self.say("220 here")
        while line := self.rfile.readline().decode().strip():
            word = line.split(" ", 1)[0].upper()
            if word == "EHLO":
                self.say("250-here")
                self.say("250-AUTH PLAIN")
            if word == "DATA":
                self.say("354 go on")
                self.server.mails.append(self._read_mail())  # type: ignore[attr-defined]
            if word == "RCPT" and "<no" in line:
                self.say("550 unknown here")
                continue
            self.say("221 bye" if word == "QUIT" else "250 fine")
            if word == "QUIT":
                return

    def _read_mail(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode()) != ".\r\n":
            lines.append(line)
        return "".join(lines)

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server(answers: type[Mail] = Mail) -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), answers) as server:
        server.mails = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="mail")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def mail_channel(server: Any, to: str) -> EmailChannel:
    port = server.server_address[1]
    return EmailChannel(
        to=(to,), sender="pi@here", host="127.0.0.1", port=port, security=MailSecurity.NONE
    )


def test_a_mail_arrives_with_an_id_that_stays() -> None:
    with mail_server() as server:
        for _ in range(2):
            send(mail_channel(server, "ops@example.org"), MESSAGE)
        mails = server.mails

    ids = {line for mail in mails for line in mail.splitlines() if line.startswith("Message-ID")}
    assert len(mails) == 2
    assert len(ids) == 1
    assert "Subject: [pi] nightly failed" in mails[0]
    assert "Run 4 started." in mails[0]


def test_a_mail_that_is_refused_says_what_the_server_said() -> None:
    with mail_server() as server, pytest.raises(ChannelFailed) as caught:
        send(mail_channel(server, "nobody@example.org"), MESSAGE)

    assert "unknown here" in caught.value.message


def test_a_password_that_no_server_can_get_is_a_failure_of_its_channel_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "gehe\u00efm")
    with mail_server() as server:
        channel = replace(
            mail_channel(server, "ops@example.org"),
            username="pi",
            password=Secret("env", "MAIL_PASSWORD"),
        )
        with pytest.raises(ChannelFailed) as caught:
            send(channel, MESSAGE)

    assert caught.value.message == "it could not be sent: UnicodeEncodeError"


class Dripping(socketserver.StreamRequestHandler):
    """Send the bytes of an answer one by one, until the test ends or the peer has gone."""

    def handle(self) -> None:
        answer: bytes = self.server.answer  # type: ignore[attr-defined]
        pause: threading.Event = self.server.pause  # type: ignore[attr-defined]
        with suppress(OSError):
            for place in range(len(answer)):
                self.wfile.write(answer[place : place + 1])
                if pause.wait(0.05):
                    return


@contextmanager
def dripping_server(answer: bytes) -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
        server.answer, server.pause = answer, threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="drip")
        thread.start()
        try:
            yield server
        finally:
            server.pause.set()  # type: ignore[attr-defined]
            server.shutdown()
            thread.join()


def https_url(server: Any) -> Secret:
    return Secret("text", f"https://127.0.0.1:{server.server_address[1]}/hook")


@pytest.mark.parametrize(
    "channel_of",
    [
        lambda server: WebhookChannel(url=url_of(server)),
        lambda server: WebhookChannel(url=https_url(server)),
        lambda server: PingChannel(url=url_of(server)),
        lambda server: mail_channel(server, "ops@example.org"),
        lambda server: replace(mail_channel(server, "ops@here"), security=MailSecurity.TLS),
    ],
    ids=["webhook", "webhook over TLS", "ping", "mail", "mail over TLS"],
)
def test_a_server_that_answers_byte_by_byte_has_one_time_limit(
    channel_of: Callable[[Any], Channel],
) -> None:
    """Each byte comes in time, and all of them take ten seconds."""
    answer = b"\x16\x03\x03\x40\x00" + b"2" * 200
    with dripping_server(answer) as server, pytest.raises(ChannelFailed) as caught:
        send(channel_of(server), MESSAGE, timeout_s=0.5)

    assert caught.value.message == "no answer within 0.5 s"


def test_an_answer_that_begins_well_is_enough() -> None:
    """The server has taken the message: a second one would be a duplicate."""
    answer = b"HTTP/1.0 204 N\r\n\r\n" + b"x" * 200
    with dripping_server(answer) as server:
        send(WebhookChannel(url=url_of(server)), MESSAGE, timeout_s=2)


class Rude(Mail):
    """Take the mail, and answer QUIT with an error."""

    def say(self, text: str) -> None:
        super().say("500 what?" if text.startswith("221") else text)


def test_a_mail_that_was_taken_is_sent_whatever_the_server_says_then() -> None:
    with mail_server(Rude) as server:
        send(mail_channel(server, "ops@example.org"), MESSAGE)

    assert len(server.mails) == 1


class SafeMails:
    """Keep how each mail came: a handler of aiosmtpd."""

    def __init__(self) -> None:
        self.senders: list[object] = []

    async def handle_DATA(self, server: object, session: Any, envelope: Any) -> str:
        self.senders.append(session.auth_data.login)
        return "250 kept"


@contextmanager
def safe_mail_server(
    context: ssl.SSLContext, security: MailSecurity
) -> Iterator[tuple[int, SafeMails]]:
    """An SMTP server that takes mails of one user only."""
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult

    mails = SafeMails()
    is_tls = security is MailSecurity.TLS
    with socketserver.TCPServer(("127.0.0.1", 0), Mail) as free:
        port = int(free.server_address[1])
    controller = Controller(
        mails,
        hostname="127.0.0.1",
        port=port,
        ssl_context=context if is_tls else None,
        tls_context=None if is_tls else context,
        require_starttls=not is_tls,
        auth_required=not is_tls,
        auth_require_tls=not is_tls,
        authenticator=lambda server, session, envelope, way, data: AuthResult(
            success=(data.login, data.password) == (b"pi", b"geheim"), auth_data=data
        ),
    )
    controller.start()
    try:
        yield port, mails
    finally:
        controller.stop()


@pytest.mark.needs_package("aiosmtpd", "trustme")
@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.STARTTLS])
def test_a_mail_over_tls_needs_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: MailSecurity
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "geheim")
    from tests.support.tls import made_authority

    context, authority = made_authority(tmp_path)
    with safe_mail_server(context, security) as (port, mails):
        channel = EmailChannel(
            to=("ops@example.org",),
            host="127.0.0.1",
            port=port,
            security=security,
            username="pi",
            password=Secret("env", "MAIL_PASSWORD"),
        )
        with pytest.raises(ChannelFailed) as caught:
            send(channel, MESSAGE)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        send(channel, MESSAGE)

    assert "the server's certificate is not trusted: " in caught.value.message
    assert "SSL_CERT_FILE" in str(caught.value.hint)
    assert mails.senders == [b"pi"]


@pytest.mark.needs_package("apprise")
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # by a library of Apprise
def test_apprise_sends_to_each_of_its_addresses(tmp_path: Path) -> None:
    with web_server() as server:
        host = f"127.0.0.1:{server.server_address[1]}"
        urls = tmp_path / "urls"
        urls.write_text(f"json://{host}/one\n\njson://{host}/two\n")
        send(AppriseChannel(urls=Secret("file", str(urls))), MESSAGE)
        found = {path: json.loads(body) for path, _, body in server.requests}

    assert found.keys() == {"/one", "/two"}
    assert found["/one"]["title"] == MESSAGE.subject
    assert "Run 4 started." in found["/one"]["message"]


@pytest.mark.needs_package("apprise")
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # by a library of Apprise
@pytest.mark.parametrize(
    ("urls", "said"),
    [
        ("json://127.0.0.1:9/secret", "a service did not take the message"),
        ("json://127.0.0.1:9/\nsecret", "apprise can't read address 2"),
    ],
)
def test_apprise_says_what_fails_without_a_secret(urls: str, said: str) -> None:
    with pytest.raises(ChannelFailed) as caught:
        send(AppriseChannel(urls=Secret("text", urls)), MESSAGE)

    assert said in caught.value.message
    assert "secret" not in caught.value.message


def test_without_the_extra_apprise_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)

    with pytest.raises(ChannelFailed, match=re.escape(hint_for_extra("apprise"))):
        send(AppriseChannel(urls=Secret("text", "json://127.0.0.1:9")), MESSAGE)
