#!/bin/sh
# What the benchmarks use beside .venv: the peer's packages in .venv-bench, and wrk, without which the load is a Python
# process. The interpreters to choose from are the argument.
set -eu
. "$(dirname "$0")/../packages.sh"
VENV=.venv-bench sh tests/make_venv.sh "$1" --requirement tests/bench/peer/requirements.txt

command -v wrk >/dev/null 2>&1 || install_packages "the load" wrk ||
    tell_missing "SO THE LOAD COMES FROM A PYTHON PROCESS" wrk
