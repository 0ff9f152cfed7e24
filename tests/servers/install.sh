#!/bin/sh
# Installs the eight MCP servers that `bridge` talks to into `target/servers`, which is not committed.
# Needs npm, the two package registries, and a python3 with venv that lies where a jail can run it
# (`PYTHON`, else /usr/bin/python3). Safe to run again.
set -eu
cd "$(dirname "$0")/../.."
folder=target/servers
mkdir -p "$folder"

npm install --silent --no-audit --no-fund --prefix "$folder/node" \
    @modelcontextprotocol/server-everything@2026.8.31 \
    @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/server-memory@2026.8.31 \
    @modelcontextprotocol/server-sequential-thinking@2026.8.31

# The last release of the sqlite server does not start with the SDK that the others need.
environment() {
    "${PYTHON:-/usr/bin/python3}" -m venv "$folder/$1"
    shift_from=$1
    shift
    "$folder/$shift_from/bin/pip" install --quiet --disable-pip-version-check "$@"
}
environment python mcp-server-time==2026.10.19 mcp-server-git==2026.10.19 mcp-server-fetch==2026.10.24
environment sqlite mcp-server-sqlite==2025.4.25 'mcp<2'
echo "installed into $folder"
