#!/bin/sh
# Installs the tools that check the pages' scripts into tests/js/node_modules, and before that Node.js and npm from the
# system's packages where they are missing. Nothing of it is needed to run the companion.
set -eu
cd "$(dirname "$0")"

if ! command -v npm >/dev/null 2>&1; then
    as_root=""
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    if command -v apt-get >/dev/null 2>&1; then
        echo "Installing for the checks of the scripts: nodejs npm"
        $as_root apt-get update -qq &&
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm || true
    fi
fi
if ! command -v npm >/dev/null 2>&1; then
    echo "The checks of the scripts need Node.js 18.19 or newer with npm; on Debian: apt-get install nodejs npm" >&2
    exit 1
fi
npm ci --silent
