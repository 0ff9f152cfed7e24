#!/bin/sh
# Installs what the tests of `distribution` talk to: an OCI registry. Needs Debian's packages and the
# right to install them. Safe to run again.
set -eu
apt-get install --yes --no-install-recommends docker-registry
