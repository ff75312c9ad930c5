#!/bin/sh
# What the tests use beside Python: MariaDB's server, systemd's reader of unit files, two browsers, Node.js for the unit
# tests of the pages' scripts, strace, which tells what a process has flushed to disk, libfaketime, which sets the clock of
# one process, and curl, which README's story types. None starts a service. nginx, Caddy and Prometheus would: of these three
# packages only one program each is unpacked, into a cache of the user's (nginx and Caddy serve our samples of a proxy,
# promtool reads our alert rules).
# Never a reason to stop: a test whose tool is missing says so and is skipped (on CI a skip is a failure).
set -u
PATH="$PATH:/usr/sbin:/usr/local/sbin"
. "$(dirname "$0")/packages.sh"

missing=""
command -v mariadbd >/dev/null 2>&1 || missing="mariadb-server-core"
command -v systemd-analyze >/dev/null 2>&1 || missing="$missing systemd"
# the headless shell is the same browser without windows, and a third faster; the others do as well
command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 ||
    command -v chromium-browser >/dev/null 2>&1 || missing="$missing chromium-headless-shell|chromium"
command -v firefox-esr >/dev/null 2>&1 || missing="$missing firefox-esr"
ls /usr/lib/*/libatomic.so.1 >/dev/null 2>&1 || missing="$missing libatomic1"  # for what drives the browser
command -v curl >/dev/null 2>&1 || missing="$missing curl"
command -v node >/dev/null 2>&1 || missing="$missing nodejs"
command -v strace >/dev/null 2>&1 || missing="$missing strace"
ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"

unpacked="${XDG_CACHE_HOME:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache}/companion-tests"
PATH="$PATH:$unpacked"
to_unpack=""
command -v nginx >/dev/null 2>&1 || to_unpack="nginx:usr/sbin/nginx"
command -v caddy >/dev/null 2>&1 || to_unpack="$to_unpack caddy:usr/bin/caddy"
# a package of its own since Debian 13
command -v promtool >/dev/null 2>&1 || to_unpack="$to_unpack promtool|prometheus:usr/bin/promtool"
# nginx's only library that not every Debian has
[ -z "$to_unpack" ] || ldconfig -p | grep -q 'libssl\.so\.3' || missing="$missing libssl3t64|libssl3"
[ -n "$missing$to_unpack" ] || exit 0

# unpack PACKAGE PROGRAM: without its services, its user and its files in /etc; needs no root
unpack() {
    folder=$(mktemp -d) &&
        chmod 755 "$folder" &&
        (cd "$folder" && apt-get download -qq "$1" && dpkg-deb --fsys-tarfile ./*.deb | tar -x "./$2") &&
        mkdir -p "$unpacked" && mv "$folder/$2" "$unpacked/"
    unpack_status=$?
    rm -rf "$folder"
    return $unpack_status
}

still_missing=""
if [ -n "$missing" ]; then
    install_packages "the tests" $missing || still_missing="$not_installed"
fi
if [ -n "$to_unpack" ] && may_install; then
    update_package_lists
fi
for each in $to_unpack; do
    package=$(find_package "${each%%:*}") && quietly "Unpacking for the tests: ${each#*:}" unpack "$package" "${each#*:}" ||
        still_missing="$still_missing ${each%%:*}"
done
[ -z "$still_missing" ] || tell_missing "AND THEIR TESTS WILL BE SKIPPED" $still_missing
exit 0
