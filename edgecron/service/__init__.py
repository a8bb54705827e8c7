"""Run at boot or at login: the files that service managers read, made, installed and removed.

    wanted.py    Service: what is to be run, for whom, under which name
    quoting.py   words as systemd reads them, and back
    systemd.py   units, and a stricter drop-in   launchd.py   property lists of macOS
    scripts.py   OpenRC and OpenWrt's procd      marking.py   whether a file is as we wrote it
    places.py    where these files lie           planning.py  what an install or uninstall does
    program.py   how this program is named       managers.py  carrying plans out, asking how it is

All but the last two are pure.
"""
