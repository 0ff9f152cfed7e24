#!/bin/sh
# Builds clawhost for handing out. It is built twice and linked once more: so that it counts what a start and calls do; by what was
# counted, so that what is done often is fast; and with the functions that they need beside each other, and not among
# 40 MiB of others. It takes less memory, and starts and answers sooner.
#
#   tests/bench/ordered.sh [--features interpreters]      the program is target/ordered/clawhost
#
# Needs Linux on x86-64, python3, qemu-x86_64 (Debian: qemu-user), and an llvm-profdata that reads what this rustc
# counts (`rustup component add llvm-tools`, or Debian's llvm-19 and later). Takes twice as long as a release build.
set -eu
cd "$(dirname "$0")/../.."
folder=$PWD/target/ordered
target=x86_64-unknown-linux-gnu
profile=$folder/counts.profdata
order=$folder/functions.txt
mkdir -p "$folder"

absent() {
    echo "there is no $1: $2" >&2
    exit 1
}

# The rust toolchain's own comes first, then the newest of the system.
profdata() {
    own=$(rustc --print sysroot)/lib/rustlib/$target/bin/llvm-profdata
    for version in "$own" $(seq -f llvm-profdata-%g 30 -1 19) llvm-profdata; do
        command -v "$version" && return
    done
    absent llvm-profdata "rustup component add llvm-tools, or a package like llvm-19"
}

# build FOLDER FLAGS-OF-ALL FLAGS-OF-THE-PROGRAM [OPTION…]
build() {
    into=$folder/$1 of_all=$2 of_it=$3
    shift 3
    # shellcheck disable=SC2086
    RUSTFLAGS=$of_all cargo rustc --release --locked --target "$target" --target-dir "$into" \
        -p clawhost --bin clawhost "$@" -- $of_it
}

command -v qemu-x86_64 >/dev/null || absent qemu-x86_64 "its package is called qemu-user"
merger=$(profdata)

build counting "-Cprofile-generate" "" "$@"
component=$(find "$folder/counting/$target/release/build" -path '*/out/file-io.wasm' | head -1)
python3 -B tests/bench/train.py "$folder/counting/$target/release/clawhost" "$component" "$merger" "$profile"

# cargo does not see that a profile is another than before.
rm -rf "$folder/built"
counted="-Cprofile-use=$profile -Cllvm-args=-no-pgo-warn-mismatch"
program=$folder/built/$target/release/clawhost
build built "$counted" "-C strip=none" "$@"
python3 -B tests/bench/order.py "$program" "$order"
# Names that a file of this build does not have are no harm.
build built "$counted" "-C link-arg=-Wl,--symbol-ordering-file=$order -C link-arg=-Wl,--no-warn-symbol-ordering" "$@"
cp "$program" "$folder/clawhost"
