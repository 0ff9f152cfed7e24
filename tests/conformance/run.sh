#!/usr/bin/env bash
# Holds a built clawhost against the MCP conformance suite, in both lines of it and both eras of the
# protocol: once with components for tools, once with everything bridged from a server. Then against
# mcp-ssrf-check and the Inspector. Prints a table, and ends with 1 where something failed that no
# line of expected-failures.yaml explains.
#
#   tests/conformance/install.sh           once
#   cargo build -p clawhost
#   tests/conformance/run.sh [CLAWHOST]    about a minute
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/conformance
out=target/conformance
program=${1:-target/debug/clawhost}
work=$(mktemp -d)
host=
trap '[ -z "$host" ] || kill "$host" 2>/dev/null; rm -rf "$work"' EXIT
export PATH="$PWD/$out/node/node_modules/.bin:$PATH"
failed=0

[ -e "$out/python/bin/mcp-ssrf-check" ] || { echo "run $here/install.sh first" >&2; exit 2; }

# The tools as a component. Where the toolchain has no standard library for wasm, the build of the host
# has made one.
component() {
    local target=wasm32-unknown-unknown sysroot="" made
    if ! compgen -G "$(rustc --print target-libdir --target $target)/libcore-*" >/dev/null; then
        made=$(compgen -G "${XDG_CACHE_HOME:-$HOME/.cache}/clawhost/wasm-sysroot/$(rustc -vV | sed -n 's/^release: //p')-*")
        sysroot=$'\x1f'"--sysroot=${made%%$'\n'*}"
    fi
    CARGO_ENCODED_RUSTFLAGS="-Clinker=wasm-component-ld$sysroot" cargo build --quiet --release --locked \
        --target $target --target-dir "$PWD/$out/component" --manifest-path $here/mcp/component/Cargo.toml
    mkdir -p "$out/tools"
    cp "$out/component/$target/release/conformance_tools.wasm" "$out/tools/"
}

# serve SETUP [ARGUMENT...]: starts a host, and says where it is.
serve() {
    local setup=$1
    shift
    : >"$work/said" # what the host before said of itself
    "$program" run "$here/mcp/$setup" "$here/mcp/servers.yaml" --state "$work/$setup" \
        --http 127.0.0.1:0 "$@" >"$work/said" 2>"$work/complained" &
    host=$!
    until grep -q '^serving MCP' "$work/said"; do
        kill -0 "$host" || { cat "$work/complained" >&2; exit 1; }
        sleep 0.1
    done
    url=$(sed -n 's/^serving MCP on \([^ ]*\) .*/\1/p' "$work/said")
    sleep 2 # the bridged server starts
}

stop() {
    kill "$host"
    wait "$host" || true
    host=
}

# row NAME COMMAND...: runs it, and writes a row of the table.
row() {
    local name=$1 verdict=passed
    shift
    "$@" >"$work/log" 2>&1 || { verdict=FAILED; failed=1; cp "$work/log" "$out/${name//[ \/]/-}.log"; }
    local total
    total=$(sed -n 's/^Total: //p' "$work/log" | tail -n 1)
    printf '%-44s %-7s %s\n' "$name" "$verdict" "$total"
}

suite() { # SETUP LINE ARGUMENT...
    local setup=$1 line=$2 name=$3
    shift 3
    row "$setup, suite $line, $name" node "$out/$line/node_modules/@modelcontextprotocol/conformance/dist/index.js" \
        server --url "$url" -o "$work/results" "$@"
}

component
export HOME="$work" # the Inspector writes there
for setup in components bridged; do
    extra=()
    [ $setup = bridged ] || extra=(--tools "$out/tools")
    serve $setup --no-auth "${extra[@]}"
    older=(--expected-failures "$here/expected-failures.yaml")
    suite $setup node 2025-11-25 --suite active "${older[@]}"
    suite $setup next 2025-11-25 --requirements 2025-11-25 "${older[@]}"
    suite $setup next 2026-07-28 --requirements 2026-07-28
    for era in legacy modern; do
        row "$setup, Inspector over HTTP, $era" mcp-inspector --cli --protocol-era $era --transport http \
            --server-url "$url" --method tools/list --strict
        row "$setup, Inspector over stdio, $era" mcp-inspector --cli --protocol-era $era \
            "$program" run "$here/mcp/$setup" "$here/mcp/servers.yaml" --state "$work/$setup-$era" \
            --stdio "${extra[@]}" --method tools/list --strict
    done
    stop
done
serve web
row "mcp-ssrf-check" "$out/python/bin/mcp-ssrf-check" --url "$url" \
    --bearer "$(sed -n 's/.*Bearer \([^"]*\)".*/\1/p' "$work/said" | head -n 1)" \
    --fetch-tool web_fetch --url-argument url
stop
exit $failed
