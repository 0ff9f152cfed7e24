#!/bin/sh
# Builds clawhost for handing out: the functions that a start and calls need lie beside each other in it, and not
# among 40 MiB of others. It takes less memory, and starts and answers sooner.
#
#   tests/bench/ordered.sh [--features interpreters]      the program is target/ordered/clawhost
#
# Needs Linux on x86-64, python3 and qemu-x86_64 (Debian: qemu-user). Takes two minutes more than a release build.
set -eu
cd "$(dirname "$0")/../.."
command -v qemu-x86_64 >/dev/null || { echo "there is no qemu-x86_64: its package is called qemu-user" >&2; exit 1; }
folder=$PWD/target/ordered
order=$folder/functions.txt
mkdir -p "$folder"

build() {
    with=$1
    shift
    # shellcheck disable=SC2086
    cargo rustc --release --locked -p clawhost --bin clawhost "$@" -- $with
}

build "-C strip=none" "$@"
python3 -B tests/bench/order.py target/release/clawhost "$order"
# Names that a file of this build does not have are no harm.
build "-C link-arg=-Wl,--symbol-ordering-file=$order -C link-arg=-Wl,--no-warn-symbol-ordering" "$@"
cp target/release/clawhost "$folder/clawhost"
