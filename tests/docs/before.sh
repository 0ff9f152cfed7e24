# What the commands of the README and the book find where tests/it/commands.rs runs them: the examples, and these words.
# SOURCE is the checkout.

mkdir host
cp -R "$SOURCE/host/examples" host/

# Ends here, as a block that was not run, without a program that not every machine has.
needs() {
    command -v "$1" > /dev/null || exit 77
}

# The pages say that `clawhost` stands for `cargo run --`.
cargo() {
    [ "$1 $2" = 'run --' ] && shift 2 && clawhost "$@"
}

# A host that serves HTTP is asked to end once it is up, and listens where nobody else does.
clawhost() {
    case "$*" in
        *--stdio*) command clawhost "$@" ;;
        run\ * | proxy\ *) serve "$@" && kill "$host" && wait "$host" ;;
        *) command clawhost "$@" ;;
    esac
}

serve() {
    command clawhost $(echo "$*" | sed 's/--http [0-9]*//') --http 127.0.0.1:0 > host.log 2>&1 &
    host=$!
    until grep -q mcpServers host.log; do
        kill -0 "$host" || { cat host.log; return 1; }
        sleep 0.1
    done
}

# Starts the host of the examples, with more arguments, beside what follows; its client makes the calls of calls.jsonl.
host_with_a_client() {
    cat > client.jsonl << 'END'
{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"0"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
END
    cat calls.jsonl >> client.jsonl
    tail -n +1 -f client.jsonl | command clawhost run host/examples/manifest.yaml "$@" --stdio > host.log 2>&1 &
}

# calls ID TOOL ARGUMENTS: what that client calls.
calls() {
    printf '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":{%s}}}\n' "$1" "$2" "$3" >> calls.jsonl
}

# Waits until a command succeeds.
until_it_is() {
    until "$@" > /dev/null 2>&1; do sleep 0.1; done
}

# The name of the oldest call in the record.
first_call() {
    echo "$(basename "$(ls "$XDG_STATE_HOME"/clawhost/audit/*.jsonl | head -n 1)" .jsonl)/0"
}
