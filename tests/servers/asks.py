"""An MCP server of the older revisions, over standard input and output, that asks its client for a name
while a call runs. Nothing but Python's own library."""

import json
import os
import sys

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask_name():
    form = {"message": f"What is your name? {os.environ['HINT']}", "requestedSchema": FORM}
    say({"id": "q", "method": "elicitation/create", "params": form})
    answer = json.loads(sys.stdin.readline()).get("result", {}).get("content", {})
    return {"content": [{"type": "text", "text": f"Hello, {answer.get('name', 'nobody')}!"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    match message["method"]:
        case "initialize":
            info = {"name": "asks", "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [{"name": "ask_name", "description": "Greets.", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            result = ask_name()
        case _:
            say({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
            continue
    say({"id": message["id"], "result": result})
