#!/bin/sh
# What the tests use beside Python: MariaDB's server, systemd's reader of unit files, a browser, Node.js for the unit
# tests of the pages' scripts, strace, which tells what a process has flushed to disk, and libfaketime, which sets the
# clock of one process. None starts a service. nginx, Caddy and Prometheus would: of these three packages only one
# program each is unpacked, into a cache of the user's (nginx and Caddy serve our samples of a proxy, promtool reads our
# alert rules).
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
command -v strace >/dev/null 2>&1 || missing="$missing strace"
ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"

unpacked="${XDG_CACHE_HOME:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache}/companion-tests"
PATH="$PATH:$unpacked"
to_unpack=""
command -v nginx >/dev/null 2>&1 || to_unpack="nginx:usr/sbin/nginx"
command -v caddy >/dev/null 2>&1 || to_unpack="$to_unpack caddy:usr/bin/caddy"
command -v promtool >/dev/null 2>&1 || to_unpack="$to_unpack prometheus:usr/bin/promtool"
# nginx's only library that not every Debian has
[ -z "$to_unpack" ] || ldconfig -p | grep -q 'libssl\.so\.3' || missing="$missing libssl3"
[ -n "$missing$to_unpack" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo -n"
    sudo -n true 2>/dev/null || as_root="none"
fi

# unpack PACKAGE:PROGRAM: without its services, its user and its files in /etc
unpack() {
    package="${1%%:*}"
    program="${1#*:}"
    folder=$(mktemp -d)
    (cd "$folder" && apt-get download -qq "$package" 2>/dev/null && mkdir -p "$unpacked" &&
        dpkg-deb --fsys-tarfile ./*.deb | tar -x "./$program" && mv "$program" "$unpacked/")
    unpack_status=$?
    rm -rf "$folder"
    return $unpack_status
}

if command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ]; then
    echo "Installing for the tests:" $missing $to_unpack
    $as_root apt-get update -qq
    failed=""
    for each in $to_unpack; do
        unpack "$each" || failed="$failed ${each%%:*}"
    done
    [ -z "$missing" ] ||
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing || failed="$failed $missing"
    [ -n "$failed" ] || exit 0
    missing="$failed"
    to_unpack=""
fi
missing="$missing $(echo "$to_unpack" | sed 's/:[^ ]*//g')"
echo "##########################################################################" >&2
echo "## MISSING, AND THEIR TESTS WILL BE SKIPPED:" $missing >&2
echo "## Install them with: apt-get install --no-install-recommends" $missing >&2
echo "##########################################################################" >&2
exit 0
