#!/bin/sh
# Runs the same attacks against clawhost and against the filesystem server of npm, both over MCP on
# standard input and output, and writes RESULTS.md beside this script.
#
#   tests/side-by-side/run.sh [CLAWHOST]
#
# Needs Linux, node with npm and its registry, python3, and a built clawhost (`cargo build -p clawhost`).
# It may take 3 GiB of disk and 6 GiB of memory; as root it also makes a device in a granted folder.
set -eu
cd "$(dirname "$0")/../.."
version=2026.8.31
folder=target/side-by-side
program=${1:-target/debug/clawhost}

mkdir -p "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" \
    "@modelcontextprotocol/server-filesystem@$version"
exec python3 -B tests/side-by-side/driver.py "$program" "$folder" "$version"
