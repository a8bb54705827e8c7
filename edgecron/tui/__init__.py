"""The dashboard on a terminal. It reads and writes through `client` only.

    app.py              the application: its terminal, first screen, size, and the engine it can run
    database_app.py     its base: clock, database threads, notices
    database_thread.py  a thread that answers questions
    queries.py          screens and lists that read the database, at the rate that questions cost;
                        a read-only list, with the facts of the line under the cursor
    themes.py text_line.py   text styles and themes; single lines of text and of input
    keys.py             keys: of the configuration, bound to actions

    home.py             the first screen: schedules, upcoming runs, past runs
    list_view.py        lists: a cursor, marks, and the visible lines
    list_rows.py        what a list shows: lines, columns, targets, and the source of them
    list_strips.py      draws a line: cells in columns, in the styles of the theme
    lanes.py            the timeline: schedules as lanes of runs
    schedule_list.py upcoming.py run_list.py   what the three lists show; the hours of the week
    machine_screen.py   the machine's other schedules
    fact_screens.py     notices and whether they were sent; engines and their machines
    failure_screen.py   failures by schedule and error, until a person acknowledges them
    graph_screen.py     what a schedule waits for, and what waits for it
    status.py           status line, banner, details of the line under the cursor, keys
    list_filter.py      the filter of a list

    schedule_screen.py schedule_facts.py   one schedule, with a chart; its facts and changes
    run_screen.py run_facts.py   one run, and the thread that follows its output; its facts
    output_view.py output_text.py   its output on the screen; its lines, searched and selected
    output_tail.py      the end of an output, beside the lists
    output_colors.py    colours that jobs print
    output_export.py    copy, save and page an output

    action_screen.py    the keys of actions
    action_flow.py      the way from such a key to a notice, with its question
    actions.py          what actions are about, what they do, and their words
    form.py form_widgets.py form_fields.py form_check.py   the form of a schedule
    quick_add.py           a schedule in one line
    dialogs.py          what opens over a screen
    early_keys.py       keys that were typed before what they are for was there
    palette.py          all actions, and help

    web.py              a browser instead of the terminal
    own_engine.py       an engine as a child process

No question is answered on the screen's thread: it goes to a database thread, and the answer comes
back as frozen values. Text of other people is cleaned before it becomes a span, and never markup.
"""
