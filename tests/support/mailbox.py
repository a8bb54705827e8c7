"""A story with rules for notices, and what they sent."""

from __future__ import annotations

from pathlib import Path

from edgecron.client.notice_channels import ChannelFailed, Message
from edgecron.client.notice_rules import load_recorded, sync_config
from edgecron.client.notice_sending import NoticeSender
from edgecron.formats.config import load
from edgecron.model.notices import Notice
from edgecron.store.sql.outbox import find_notices
from tests.support.story import Story

OPS = '[notify.ops]\ncommand = ["true"]\n'


class Mailbox:
    """A story with rules, and what they were sent."""

    def __init__(self, folder: Path, rules: str, *, max_running: int = 8) -> None:
        self.story = Story(folder / "story.db", max_running=max_running)
        self.file = folder / "config.toml"
        self.letters: list[Message] = []
        self.failure: str | None = None  # what sending fails with
        self.write(rules)
        sync_config(self.story.client, load(str(self.file)))

    def write(self, rules: str) -> None:
        """Write the configuration again."""
        self.file.write_text(rules)
        self.file.chmod(0o600)

    def apply(self) -> None:
        """Let the process apply the rules, and send nothing."""
        NoticeSender(self.story.client, load_recorded(self.story.client)).apply_rules()

    def deliver(self) -> list[str]:
        """Let the process that sends notices run once; the subjects of what it sent."""
        client = self.story.client
        before = len(self.letters)
        NoticeSender(client, load_recorded(client), send=self.send, pause=self.pause).run()
        return [letter.subject.partition("] ")[2] for letter in self.letters[before:]]

    def pass_s(self, seconds: float, *, steps: int = 1) -> list[str]:
        """Let time pass, and deliver after each of these steps."""
        subjects = []
        for _ in range(steps):
            self.story.after_s(seconds)
            subjects += self.deliver()
        return subjects

    def notices(self) -> list[Notice]:
        """Every notice, oldest first."""
        store = self.story.client.store
        return find_notices(store, before_id=None, limit=1000, rule=None)[::-1]

    def send(self, channel: object, message: Message) -> None:
        if self.failure is not None:
            raise ChannelFailed(self.failure)
        self.letters.append(message)

    def pause(self, seconds: float) -> None:
        self.story.world.clock.advance_ms(round(seconds * 1000))
