#!/bin/sh
# Installs what the tests of `distribution` talk to: an OCI registry, and other clients of one into
# `target/registry`, which is not committed. Needs Debian's packages and the right to install them, python3
# with venv, Python's packages, and cargo with those of Rust. Safe to run again.
set -eu
cd "$(dirname "$0")/../.."
apt-get install --yes --no-install-recommends docker-registry
python3 -m venv target/registry
target/registry/bin/pip install --quiet --disable-pip-version-check oras==0.2.43
cargo install --quiet --locked --root target/registry wkg@0.16.1
