#!/bin/sh
# Installs the authorization server that `oauth` logs in to into `target/oauth`, which is not committed.
# Needs npm and its registry. Safe to run again.
set -eu
cd "$(dirname "$0")/../.."
folder=target/oauth
mkdir -p "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" oidc-provider@9.13.3
echo "installed into $folder"
