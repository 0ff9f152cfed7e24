#!/bin/sh
# Runs the example in a folder of its own, against a web server on this machine (python3).
# CLAWHOST names the program; without it the one that is installed runs, else cargo builds it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${CLAWHOST:-}" ]; then
    program=$CLAWHOST
elif command -v clawhost > /dev/null; then
    program=clawhost
else
    program="cargo run --quiet --manifest-path $here/../../../Cargo.toml --"
fi
# Some steps are meant to fail, so that this is where a program that does not run is noticed.
$program --version > /dev/null

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cp -R "$here/." "$work"
mkdir "$work/reports"
export CLAWHOST_STATE="$work/.state"

# Port 0 is any that is free; the server says which, in a file that is there to be looked at before it starts.
: > "$work/server.log"
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$work/site" > "$work/server.log" 2>&1 &
server=$!
tries=0
until port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/server.log") && [ -n "$port" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { cat "$work/server.log"; exit 1; }
    sleep 0.1
done
export CLAWHOST_PROFILES="{\"this-machine\": {\"ports\": [$port]}}"

say() { printf '\n== %s\n' "$1"; }
run() {
    printf '$ clawhost %s\n' "$*" | sed "s/$port/PORT/"
    $program --directory "$work" "$@" 2>&1 | sed "s/:$port/:PORT/g; s/20[0-9-]*T[0-9:.]*Z/TIME/g"
}
report() { run call . page_report "url=http://127.0.0.1:$port/$1"; }

say 'Three tools become one: checked, drawn, registered.'
run compose composites/page_report.yaml --manifest .

say 'It fetches, counts and keeps.'
report fruit.txt
cat "$work/reports/report.txt"

say 'What no rule allows is denied.'
run call . read_file path=report.txt

say 'The profile grants localhost; the network policy of the tool does not.'
run call . web_fetch "url=http://localhost:$port/fruit.txt"

say 'A page that says nothing breaks the contract, and the third time web_fetch goes into quarantine.'
for _ in 1 2 3 4; do report empty.txt; done
run quarantine list

say 'When its time is over, one call tries whether it works again. It does.'
sleep 7
report fruit.txt
run quarantine list

say 'It fails again. This time the operator ends it.'
for _ in 1 2 3; do report empty.txt; done
run quarantine release web_fetch --reason 'the page is mended'
report fruit.txt
