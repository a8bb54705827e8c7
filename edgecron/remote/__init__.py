"""RemoteClient: the database of another machine, asked over HTTP as a Client is asked here."""

from __future__ import annotations
