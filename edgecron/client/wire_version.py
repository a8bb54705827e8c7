"""What two ends must agree on before one asks the other anything."""

from __future__ import annotations

# Of all calls, their arguments and answers, and every field of these. A test says what it is to
# be where one of them has changed: then a client and a server from before and after it must not
# talk, and say so.
WIRE = "650c4383e846"
