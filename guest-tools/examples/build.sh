#!/usr/bin/env bash
# Builds the examples of this folder, each with its own toolchain, into target/examples, where
# tests/it/components.rs and tests/p3 find them. Those of C, JavaScript and Python are installed there too, once,
# and nowhere else; Rust's has to have the target wasm32-unknown-unknown.
#
#   guest-tools/examples/build.sh [c] [js] [python] [rust] [rust-async]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$here/../.." && pwd)/target/examples
mkdir -p "$out"

python_package() { # NAME VERSION
    [ -d "$out/venv" ] || python3 -m venv "$out/venv"
    "$out/venv/bin/pip" install --quiet "$1==$2"
}

build_c() {
    python_package ziglang 0.17.0 # a compiler of its own for WASI
    "$out/venv/bin/python" -m ziglang cc --target=wasm32-wasi -Os -s \
        -o "$out/c/tools/example-tool.wasm" "$here/c/example-tool.c"
}

build_js() {
    cp "$here"/js/*.* "$out/js/"
    # Once: a second installation takes away what the first one needs.
    [ -d "$out/js/node_modules" ] || (cd "$out/js" && npm install --silent --no-fund --no-audit >&2)
    (cd "$out/js" && node build.mjs)
}

build_python() {
    python_package componentize-py 0.25.1
    cp "$here"/python/*.* "$out/python/"
    (cd "$out/python" && "$out/venv/bin/componentize-py" -d example-tool.wit -w tool \
        componentize --stub-wasi app -o tools/example-tool.wasm >&2)
}

build_rust() { # FOLDER
    cp -r "$here/$1/." "$out/$1/"
    (cd "$out/$1" && cargo build --quiet --release --target-dir target)
    cp "$out/$1/target/wasm32-unknown-unknown/release/example_tool.wasm" "$out/$1/tools/example-tool.wasm"
}

for language in "${@:-c js python rust rust-async}"; do
    for one in $language; do
        mkdir -p "$out/$one/tools"
        "build_${one%-async}" "$one"
        echo "$out/$one/tools/example-tool.wasm"
    done
done
