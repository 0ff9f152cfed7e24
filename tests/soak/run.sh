#!/bin/sh
# Runs the soak against a release build (CALLS, SESSIONS; 1,000,000 and 1,000 where not said), and writes
# what it measured into host/docs/soak.md where it was at least that long.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/soak.py" "${1:-$here/../../target/release/clawhost-under-test}"
