#!/usr/bin/env bash
# Fuzzes for a while: tests/fuzz/run.sh SECONDS [TARGET…]
#
#   SECONDS   for each target
#   TARGET    as in fuzz_targets/; all of them where none is named
#   CORPUS    the folder of what was found (default: tests/fuzz/target/corpus)
#   BUILD=0   runs what was built last
#
# Needs what the rest of the project needs and nothing else: the instrumentation is a pass of the
# compiler that every release has, libFuzzer comes with its crate. `cargo fuzz` works here too.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET…]}
shift
all=(egress json manifest policy redact shell uri components host_calls messages upstream)
targets=("${@:-${all[@]}}")
host=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-target}
corpus=${CORPUS:-$built/corpus}

build() {
  local flags='--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1'
  for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$option"
  done
  local args=(--release --target "$host")
  case " ${targets[*]} " in
    *components*|*host_calls*|*messages*|*upstream*) ;;
    *) args+=(--no-default-features) ;;
  esac
  # With `--target`, build scripts and macros are left as they are.
  RUSTFLAGS=$flags cargo build "${args[@]}" $(printf -- '--bin %s ' "${targets[@]}")
}

# Seeds: the documents, messages and components that the tests use.
seed() {
  local target=$1 into=$corpus/$1 tests=..
  mkdir -p "$into"
  case $target in
    manifest) cp -n "$tests"/manifests/*/*.{yaml,json} "$tests"/conformance/*.yaml "$into" 2>/dev/null || true ;;
    components) cp -n "$tests"/guests/*.wat "$into" ;;
    *) ;;
  esac
  [ ! -d "seeds/$target" ] || cp -n seeds/"$target"/* "$into"
}

[ "${BUILD:-1}" = 0 ] || build
for target in "${targets[@]}"; do
  seed "$target"
  mkdir -p "$built/findings"
  "$built/$host/release/$target" "$corpus/$target" -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 -artifact_prefix="$built/findings/$target-"
done
