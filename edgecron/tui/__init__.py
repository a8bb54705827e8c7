"""The dashboard: what will happen and what happened, on a terminal. It reads through `api` alone.

    app.py        the application: themes, keys, its first screen
    host.py       what screens stand on: the clock, the two desks, what went wrong
    typeahead.py  keys that come faster than the screen follows
    questions.py  how screens ask; pacing.py: no more often than it costs
    desk.py       a thread with a database of its own, which answers questions
    home.py       the first screen: schedules, upcoming, runs
    scheduledetail.py schedulefacts.py facts.py   one schedule, in sections of facts
    editing.py form.py formwidgets.py   the form to add and to change: what opens it, and it
    formfields.py formcheck.py formpreview.py   its texts, what is wrong with them, and to come
    rundetail.py runfacts.py      one run: its facts, and below them what it prints
    output.py outputlines.py outputtitle.py   what a run prints, on the screen
    feed.py       a thread that follows a run; taking.py: its output to a clipboard, file, pager
    acting.py asking.py deeds.py chosen.py   what is done: its keys, questions, and the doing
    overlay.py dialogs.py inputs.py   questions that stand before all else; lines to write in
    panefoot.py   below a list: its filter, how many match and are marked
    palette.py help.py footer.py performing.py   actions by their names and keys
    enginekey.py ownengine.py     an engine that is run from here
    terminal.py guard.py          the terminal, and who puts it right; web.py: a browser instead
    clipboard.py saving.py pager.py   where an output is taken to
    banner.py     what keeps the database from being read
    toosmall.py   in place of everything, where there is no room
    telling.py    notices and progress; fronts.py: what words ask of the dashboard
    lines.py      lists of any length; spans.py: single lines of text in looks
    tables.py     what they are made of: spans, lines, columns and how they share a width
    schedules.py upcoming.py runs.py     what the lists show, and how it is read
    overview.py   engines and what is active, for the status line
    looks.py      looks, glyphs, themes; painted.py: widgets that draw in looks
    themes.py     which theme fits the terminal
    keys.py bindings.py   the keys of actions, as the configuration has them
    about.py closer.py   what is under the cursor, in one line
    coming.py     the next hours as a bar; week.py: how busy the coming week is
    sparkline.py trend.py heat.py timeline.py     pure parts
    printed.py wrapping.py searching.py selection.py columns.py     likewise, of an output

Nothing here queries on the screen's thread: a question goes to a desk, and its answer comes back
as frozen values. Text of others is cleaned before it becomes a span, and never is markup.
"""
