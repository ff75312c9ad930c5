#!/bin/sh
# What the tests use beside Python: MariaDB's server, systemd's reader of unit files, a browser, and Node.js for the unit
# tests of the pages' scripts. None starts a service.
# Never a reason to stop: a test whose tool is missing says so and is skipped (on CI a skip is a failure).
set -u
PATH="$PATH:/usr/sbin:/usr/local/sbin"

missing=""
command -v mariadbd >/dev/null 2>&1 || missing="mariadb-server-core"
command -v systemd-analyze >/dev/null 2>&1 || missing="$missing systemd"
# the headless shell is the same browser without windows, and a third faster; the others do as well
command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 ||
    command -v chromium-browser >/dev/null 2>&1 || missing="$missing chromium-headless-shell"
command -v node >/dev/null 2>&1 || missing="$missing nodejs"
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo -n"
    sudo -n true 2>/dev/null || as_root="none"
fi
if command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ]; then
    echo "Installing for the tests:" $missing
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing && exit 0
fi
echo "##########################################################################" >&2
echo "## MISSING, AND THEIR TESTS WILL BE SKIPPED:" $missing >&2
echo "## Install them with: apt-get install --no-install-recommends" $missing >&2
echo "##########################################################################" >&2
exit 0
