#!/bin/sh
# Installs the tools that check the pages' scripts, and the programs some tests use, into tests/js/node_modules, and before
# that Node.js and npm from the system's packages where they are missing. Nothing of it is needed to run the companion.
set -eu
cd "$(dirname "$0")"
. ../packages.sh
stamp=node_modules/.installed
if [ "$stamp" -nt package.json ] && [ "$stamp" -nt package-lock.json ]; then
    exit 0
fi

if ! command -v npm >/dev/null 2>&1; then
    install_packages "the pages' scripts" nodejs npm || true
fi
if ! command -v npm >/dev/null 2>&1; then
    tell_missing "AND WITHOUT IT, NO CHECKS OF THE PAGES' SCRIPTS; ITS TESTS WILL BE SKIPPED" npm
    exit 1
fi
quietly "Installing npm's packages into tests/js/node_modules" npm ci
touch "$stamp"
