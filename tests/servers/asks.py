"""An MCP server of the older revisions, over standard input and output, that asks its client for a name
while a call runs, and one that tells of progress. Nothing but Python's own library."""

import json
import os
import sys

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, params):
    say({"id": "q", "method": method, "params": params})
    return json.loads(sys.stdin.readline()).get("result", {}).get("content", {})


def ask_name(_):
    form = {"message": f"What is your name? {os.environ['HINT']}", "requestedSchema": FORM}
    return f"Hello, {ask('elicitation/create', form).get('name', 'nobody')}!"


def tell(params):
    token = params["_meta"]["progressToken"]
    told = {"progressToken": token, "progress": 1, "message": params["arguments"]["message"]}
    say({"method": "notifications/progress", "params": told})
    return "told"


TOOLS = {"ask_name": ask_name, "tell": tell}


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
            listed = {"description": "Asks.", "inputSchema": {"type": "object"}}
            result = {"tools": [{"name": name, **listed} for name in TOOLS]}
        case "tools/call":
            text = TOOLS[message["params"]["name"]](message["params"])
            result = {"content": [{"type": "text", "text": text}]}
        case _:
            say({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
            continue
    say({"id": message["id"], "result": result})
