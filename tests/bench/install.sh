#!/bin/sh
# What the benchmarks use beside .venv: the peer's packages in .venv-bench, and wrk, without which the load is a Python
# process. The interpreters to choose from are the arguments.
set -eu
VENV=.venv-bench sh tests/make_venv.sh "$@"
.venv-bench/bin/python -m pip install --quiet --requirement tests/bench/peer/requirements.txt

command -v wrk >/dev/null 2>&1 && exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1 && $as_root true 2>/dev/null; then
    $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends wrk && exit 0
fi
echo "wrk is missing: the load comes from a Python process" >&2
