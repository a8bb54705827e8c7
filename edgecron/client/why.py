"""Answer why a schedule ran, did not run, or will not run, in sentences and in fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple
from edgecron.client.sentences import prospect_sentences, verdict_sentences
from edgecron.model.choices import Status
from edgecron.model.listing import Idle
from edgecron.triggers import clock_change_notes
from edgecron.views.json_objects import execution_object, instant, outlook_object
from edgecron.views.outlook import Verdict
from edgecron.views.run_words import run_sentence

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from edgecron.client.engine_words import FrontEnd
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.views.outlook import Explanation, Outlook

_MOST_RUNS = 5  # of one time that are explained one by one
_MOST_LINE = 200  # letters of a line of output
_NOW = "now"  # the verdict of an answer without a time

SayRun = Callable[["Execution"], list[str]]


class Answer(NamedTuple):
    """An answer about a schedule: now, at a time, or about one of its runs.

    `outlook` is for now, `explanation` for a time.
    """

    schedule: str
    sentences: list[str]
    runs: tuple[Execution, ...]
    outlook: Outlook | None = None
    explanation: Explanation | None = None


def say_run(client: Client, run: Execution, *, zone: tzinfo) -> list[str]:
    """Explain a run; of one that failed, with the last line of its output."""
    sentence = run_sentence(run, zone=zone, now=client.now(), spec=client.spec_of(run))
    output = client.output(run.id) if run.status is Status.FAILED else None
    if output is not None and output.last_line:
        sentence += f' Its last line of output: "{clean(output.last_line)[:_MOST_LINE]}".'
    return [sentence]


def answer_run(run: Execution, *, say: SayRun) -> Answer:
    """Explain one run. `say` makes the sentences about a run."""
    return Answer(run.schedule, say(run), (run,))


def answer_now(front: FrontEnd, name: str, *, zone: tzinfo, say: SayRun) -> Answer:
    """Explain the last run of a schedule, and the next one. Raises NotFound."""
    client = front.client()
    outlook = client.outlook(name, upcoming=1)
    last = client.history(name, limit=1)
    sentences = [sentence for run in last for sentence in say(run)]
    if not last:
        sentences = ["It has not run yet, and no time was skipped."]
    ahead = prospect_sentences(front, outlook, zone=zone, now=client.now())
    # If nobody runs the schedule, say this first: it matters more than the last run.
    first = 1 if outlook.idle is Idle.VANISHED else 0
    return Answer(name, ahead[:first] + sentences + ahead[first:], tuple(last), outlook=outlook)


def answer_time(front: FrontEnd, name: str, at: datetime, *, zone: tzinfo, say: SayRun) -> Answer:
    """Explain a time of a schedule, past or future. Raises NotFound."""
    client = front.client()
    found = client.explain(name, at)
    if found.verdict is Verdict.RECORDED:
        shown: tuple[Execution, ...] = found.runs[-_MOST_RUNS:]
        sentences = [sentence for run in shown for sentence in say(run)]
        if len(found.runs) > len(shown):
            history = front.command(f"history {found.schedule.name}")
            sentences.insert(0, f"Of {len(found.runs)} runs these are the last; see {history}.")
    else:
        sentences = verdict_sentences(front, found, zone=zone, now=client.now())
        sentences += _change_notes(client, found)
    return Answer(found.schedule.name, sentences, found.runs, explanation=found)


def answer_object(answer: Answer, *, now: datetime) -> dict[str, Any]:
    """Return an answer as JSON shows it."""
    found, outlook = answer.explanation, answer.outlook
    verdict = Verdict.RECORDED.value if outlook is None else _NOW
    body: dict[str, Any] = {
        "schedule": answer.schedule,
        "at": None if found is None else instant(found.at),
        "verdict": verdict if found is None else found.verdict.value,
        "answer": " ".join(answer.sentences),
        "runs": [execution_object(run) for run in answer.runs],
    }
    if found is None:
        return body | {"outlook": None if outlook is None else outlook_object(outlook, now=now)}
    return body | {
        "plan_at": instant(found.plan_at),
        "due_at": instant(found.due_at),
        "source": found.source,
        "previous_at": instant(found.previous_at),
        "next_at": instant(found.next_at),
        "revision": found.words.revision,
    }


def _change_notes(client: Client, found: Explanation) -> list[str]:
    """Return what clock changes within a day do to such a time."""
    day = timedelta(days=1)
    since, until = to_ms(found.at - day), to_ms(found.at + day)
    notes: dict[str, None] = {}
    for trigger in client.triggers_at(found.schedule.name, found.at):
        for change in clock_change_notes(trigger, since, until):
            notes[f"On {change.date} {change.text}."] = None
    return list(notes)
