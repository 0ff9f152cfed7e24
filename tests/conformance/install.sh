#!/bin/sh
# Installs what run.sh needs into target/conformance, which is not committed: a node that the suite
# runs on, the MCP conformance suite in its two lines, the Inspector, and mcp-ssrf-check.
# Needs npm, python3 with venv, and the two package registries. Safe to run again.
set -eu
cd "$(dirname "$0")/../.."
folder=target/conformance
mkdir -p "$folder"

npm install --silent --no-audit --no-fund --prefix "$folder/node" \
    node@22 @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/inspector@2.12.0
# Two versions of one package have no room in one folder.
npm install --silent --no-audit --no-fund --prefix "$folder/next" \
    @modelcontextprotocol/conformance@0.2.0-alpha.12
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check mcp-ssrf-check==0.2.1
echo "installed into $folder"
