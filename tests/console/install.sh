#!/bin/sh
# Installs what `console` drives a browser with into `target/console`, which is not committed. Needs npm,
# its package registry, and a chromium that is installed (on Debian: `apt-get install chromium`).
# Safe to run again.
set -eu
cd "$(dirname "$0")/../.."
npm install --silent --no-audit --no-fund --prefix target/console playwright-core@1.58.2 axe-core@4.11.4
command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo "there is no chromium yet"
echo "installed into target/console"
