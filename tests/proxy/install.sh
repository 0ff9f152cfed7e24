#!/bin/sh
# Installs the clients that the test `proxy::clients_of_others_run_unmodified` talks through, into
# target/proxy, which is not committed: the official SDKs of OpenAI and Anthropic, and two frameworks on top
# of them. Needs python3 with venv and its package registry. Safe to run again.
set -eu
cd "$(dirname "$0")/../.."
folder=target/proxy
mkdir -p "$folder"
"${PYTHON:-python3}" -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check \
    openai==3.54.0 anthropic==2.12.0 pydantic-ai-slim==2.68.0 langchain-openai==1.7.3 langchain==1.4.7
echo "installed into $folder"
