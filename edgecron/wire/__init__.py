"""What a Client is asked and answers, as JSON: for a client on another machine.

    hints       type hints of our own modules, with the names that they mention
    codec       frozen values as JSON and back, driven by type hints; strict
    calls       which questions may be asked, and the codecs of each
    pieces      those of them that a Client answers otherwise: in pages, and with bounded waits
    faults      errors as JSON, raised as the same types on the other side
    answering   a question and its answer as texts; nothing here knows of HTTP
    version     what two ends must agree on

Nothing that comes in names a type: what is expected is known before it is read, and all else is
refused.
"""
