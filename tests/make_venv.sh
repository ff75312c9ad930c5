#!/bin/sh
# Makes an environment, .venv or the folder in VENV, with the first of the given interpreters that is Python 3.11 or newer;
# leaves one that works alone.
set -eu
is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
venv="${VENV:-.venv}"

if "$venv/bin/python" -c "$is_new_enough" 2>/dev/null && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi
for python in "$@"; do
    if "$python" -c "$is_new_enough" 2>/dev/null; then
        rm -rf "$venv"
        # Debian keeps ensurepip in a package of its own; then the interpreter's own pip installs one.
        if ! "$python" -m venv "$venv" 2>/dev/null >&2; then
            rm -rf "$venv"
            "$python" -m venv --without-pip "$venv"
            "$python" -m pip --python "$venv/bin/python" install --quiet pip
        fi
        exit 0
    fi
done
echo "The companion needs Python 3.11 or newer; none of these is there: $*" >&2
exit 1
