"""Decide whether another attempt follows one that ended, and when. Pure."""

from __future__ import annotations

from hashlib import blake2b

from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import OnInterrupt, Status

_SPREAD = 0.1  # a retry moves by up to this share of its delay: so a thousand do not come at once


class RetryPolicy(NamedTuple):
    """How often, and after how long, a fire is attempted again."""

    retries: int
    delay_s: float
    factor: float
    max_delay_s: float
    on_interrupt: OnInterrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """An attempt that has ended. `interrupted_before` earlier attempts were interrupted."""

    schedule: str
    plan_ms: int
    fire_key: str
    attempt: int
    max_attempts: int
    interrupted_before: int
    status: Status
    finished_ms: int


def most_attempts(retries: int, on_interrupt: OnInterrupt) -> int:
    """How many attempts a fire has at most: an interrupted one does not use up a retry."""
    return retries + 1 + (on_interrupt is OnInterrupt.RETRY)


def plan_retry(policy: RetryPolicy, ended: EndedAttempt, *, seed: bytes) -> int | None:
    """When the next attempt is due; None if there is none.

    At most `retries` attempts follow a failure. An attempt follows an interruption only if the
    schedule asks for it, and then immediately: an interruption is not a failure.
    """
    if ended.attempt >= ended.max_attempts:
        return None
    if ended.status is Status.INTERRUPTED:
        return ended.finished_ms if policy.on_interrupt is OnInterrupt.RETRY else None
    failures = ended.attempt - ended.interrupted_before
    if ended.status is not Status.FAILED or failures > policy.retries:
        return None
    return ended.finished_ms + _delay_ms(policy, ended, failures, seed)


def _delay_ms(policy: RetryPolicy, ended: EndedAttempt, failures: int, seed: bytes) -> int:
    """The delay: it grows with each failure, and a stable hash spreads it.

    It never exceeds its maximum: there it is spread below it.
    """
    # A float can't hold a large factor to a large power.
    delay_s = policy.max_delay_s / (1 + _SPREAD)
    if policy.factor == 1 or failures <= 64:
        delay_s = min(delay_s, policy.delay_s * policy.factor ** (failures - 1))
    identity = f"{ended.schedule}\0{ended.plan_ms}\0{ended.fire_key}\0{ended.attempt}"
    digest = blake2b(identity.encode(), key=seed, digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    return round(delay_s * 1000 * (1 + _SPREAD * share))
