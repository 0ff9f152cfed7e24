"""What the MCP conformance suite asks a server for by name, as an MCP server over standard input and
output that speaks both eras of the protocol. Nothing but Python's own library.

The suite cannot reach it: it speaks to the host, which bridges this server.
"""

import hashlib
import hmac
import json
import sys
import time

MODERN = "2026-07-28"
LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
INFO = {"name": "conformance-fixtures", "version": "1.0.0"}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
KEY = b"only good for telling a state of our own from another"


class Refused(Exception):
    def __init__(self, code, message, **data):
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"data": data} if data else {})}


class Asks(Exception):
    """The answer is that the client has to bring more."""

    def __init__(self, requests, state=None):
        super().__init__()
        self.result = {"resultType": "input_required", "inputRequests": requests}
        if state is not None:
            self.result["requestState"] = state


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


# --- tools -----------------------------------------------------------------------------------------


def text(words):
    return {"type": "text", "text": words}


def embedded(uri, words, mime="text/plain"):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


def image():
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def progress(params):
    token = params.get("_meta", {}).get("progressToken")
    for step in (0, 50, 100):
        if token is not None:
            told = {"progressToken": token, "progress": step, "total": 100}
            send({"method": "notifications/progress", "params": told})
        time.sleep(0.15)
    return [text("done")]


def fails(_params):
    raise ValueError("This tool intentionally returns an error for testing")


def form(message, **properties):
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {"method": "elicitation/create",
            "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sampling(words, tokens):
    message = {"role": "user", "content": text(words)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


ROOTS = {"method": "roots/list", "params": {}}
STRING, BOOLEAN = {"type": "string"}, {"type": "boolean"}


def sealed(state):
    return state + "." + hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()


def unsealed(params):
    state = params.get("requestState", "")
    if not hmac.compare_digest(sealed(state.split(".")[0]), state):
        raise Refused(-32602, "the request state is not one of this server")
    return state.split(".")[0]


def accepted(params, key):
    """The content of an accepted form, if it is there and one."""
    answer = params.get("inputResponses", {}).get(key)
    fits = isinstance(answer, dict) and answer.get("action") == "accept"
    return answer.get("content") if fits and isinstance(answer.get("content"), dict) else None


def elicits(params):
    name = (accepted(params, "user_name") or {}).get("name")
    if not isinstance(name, str):
        raise Asks({"user_name": form("What is your name?", name=STRING)})
    return [text(f"Hello, {name}!")]


def asks_once(requests, state=None):
    """A tool that needs an answer to each of `requests`."""

    def tool(params):
        answers = params.get("inputResponses")
        if answers is None:
            raise Asks(requests, state and sealed(state))
        if state is not None:
            unsealed(params)
        if not all(key in answers for key in requests):
            raise Asks(requests, state and sealed(state))
        return [text("state-ok " + json.dumps(answers))]

    return tool


def two_rounds(params):
    if params.get("inputResponses") is None:
        raise Asks({"step1": form("Step 1: What is your name?", name=STRING)}, sealed("one"))
    if unsealed(params) == "one":
        raise Asks({"step2": form("Step 2: What is your favorite color?", color=STRING)}, sealed("two"))
    return [text("thanks")]


def capable(params):
    """Asks for no more than the client says it can."""
    client = params["_meta"].get("io.modelcontextprotocol/clientCapabilities", {})
    wishes = {"elicitation": form("Name?", name=STRING), "sampling": sampling("Hello?", 10), "roots": ROOTS}
    asked = {key: wish for key, wish in wishes.items() if key in client}
    if not asked or params.get("inputResponses") is not None:
        return [text("nothing more is needed")]
    raise Asks(asked)


def asks_name_and_age(params):
    fields = {"name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30},
              "score": {"type": "number", "default": 95.5}, "verified": {"type": "boolean", "default": True},
              "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}}
    return asked_for(params, "Please provide user information", **fields)


def asks_choices(params):
    titled = [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}]
    fields = {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return asked_for(params, "Please choose", **fields)


def asked_for(params, message, **fields):
    answer = params.get("inputResponses", {}).get("form")
    if answer is None:
        raise Asks({"form": form(message, **fields)})
    return [text(f"Elicitation completed: action={answer.get('action')}, content={json.dumps(answer.get('content'))}")]


def asks_user(params):
    fields = {"username": STRING, "email": STRING}
    return asked_for(params, params["arguments"]["message"], **fields)


def asks_model(params):
    answer = params.get("inputResponses", {}).get("model")
    if answer is None:
        raise Asks({"model": sampling(params["arguments"]["prompt"], 100)})
    return [text(f"LLM response: {answer.get('content', {}).get('text')}")]


def toggles_a_prompt(_params):
    if PROMPTS.pop("test_late_prompt", None) is None:
        PROMPTS["test_late_prompt"] = ([], lambda _: says(text("I came late.")))
    send({"method": "notifications/prompts/list_changed"})
    return [text("it comes and goes")]


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                          "properties": {"street": STRING, "city": STRING}}},
    "properties": {"name": STRING, "address": {"$ref": "#/$defs/address"},
                   "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                   "phone": STRING, "email": STRING},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def wants(**properties):
    return {"type": "object", "properties": properties, "required": sorted(properties)}


ANYTHING = {"type": "object"}
STATE = {"confirm": form("Please confirm", ok=BOOLEAN)}
TOOLS = {
    "test_simple_text": (ANYTHING, lambda _: [text("This is a simple text response for testing.")]),
    "test_image_content": (ANYTHING, lambda _: [image()]),
    "test_audio_content": (ANYTHING, lambda _: [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
    "test_embedded_resource": (
        ANYTHING, lambda _: [embedded("test://embedded-resource", "This is an embedded resource content.")]),
    "test_multiple_content_types": (ANYTHING, lambda _: [
        text("Multiple content types test:"), image(),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")]),
    "test_tool_with_progress": (ANYTHING, progress),
    "test_error_handling": (ANYTHING, fails),
    "json_schema_2020_12_tool": (SCHEMA, lambda params: [text(json.dumps(params["arguments"]))]),
    "test_logging_tool": (ANYTHING, lambda _: [text("nothing to log")]),
    "test_custom_header": (wants(region={**STRING, "x-mcp-header": "Region"}), lambda _: [text("done")]),
    "test_trigger_prompt_change": (ANYTHING, toggles_a_prompt),
    "test_missing_capability": (ANYTHING, asks_once({"model": sampling("Hello?", 10)})),
    "test_streaming_elicitation": (ANYTHING, elicits),
    "test_sampling": (wants(prompt=STRING), asks_model),
    "test_elicitation": (wants(message=STRING), asks_user),
    "test_elicitation_sep1034_defaults": (ANYTHING, asks_name_and_age),
    "test_elicitation_sep1330_enums": (ANYTHING, asks_choices),
    "test_input_required_result_elicitation": (ANYTHING, elicits),
    "test_input_required_result_sampling": (
        ANYTHING, asks_once({"capital_question": sampling("What is the capital of France?", 100)})),
    "test_input_required_result_list_roots": (ANYTHING, asks_once({"client_roots": ROOTS})),
    "test_input_required_result_request_state": (ANYTHING, asks_once(STATE, "confirm")),
    "test_input_required_result_multiple_inputs": (ANYTHING, asks_once({
        "user_name": form("What is your name?", name=STRING), "greeting": sampling("Generate a greeting", 50),
        "client_roots": ROOTS}, "several")),
    "test_input_required_result_multi_round": (ANYTHING, two_rounds),
    "test_input_required_result_tampered_state": (ANYTHING, asks_once(STATE, "tampered")),
    "test_input_required_result_capabilities": (ANYTHING, capable),
}


def call(params):
    name = params.get("name")
    if name not in TOOLS:
        raise Refused(-32602, f"there is no tool {name!r}")
    try:
        return {"content": TOOLS[name][1]({"arguments": {}, "_meta": {}, **params})}
    except ValueError as error:
        return {"isError": True, "content": [text(str(error))]}


# --- resources, prompts, completion ----------------------------------------------------------------


def resource(uri, mime, **more):
    return {"uri": uri, "name": uri.split("/")[-1], "description": f"The resource {uri}.", "mimeType": mime, **more}


RESOURCES = {
    "test://static-text": resource("test://static-text", "text/plain"),
    "test://static-binary": resource("test://static-binary", "image/png"),
    "test://watched-resource": resource("test://watched-resource", "text/plain"),
}
TEMPLATE = {"uriTemplate": "test://template/{id}/data", "name": "template", "description": "One of many.",
            "mimeType": "application/json"}


def read(params):
    uri = params.get("uri", "")
    if uri == "test://static-binary":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}]}
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"This is the content of {uri}."}]}
    if uri.startswith("test://template/") and uri.endswith("/data"):
        which = uri.split("/")[3]
        said = json.dumps({"id": which, "templateTest": True, "data": f"Data for ID: {which}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": said}]}
    raise Refused(-32602, "there is no such resource", uri=uri)


def says(*blocks):
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


def asks_context(params):
    context = (accepted(params, "user_context") or {}).get("context")
    if context is None:
        raise Asks({"user_context": form("What context should the prompt use?", context=STRING)})
    return says(text(f"With the context {context}."))


PROMPTS = {
    "test_simple_prompt": ([], lambda _: says(text("This is a simple prompt for testing."))),
    "test_prompt_with_arguments": (["arg1", "arg2"], lambda params: says(text(
        "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'".format(**params["arguments"])))),
    "test_prompt_with_embedded_resource": (["resourceUri"], lambda params: says(
        embedded(params["arguments"]["resourceUri"], "Embedded resource content for testing."),
        text("Please process the embedded resource above."))),
    "test_prompt_with_image": ([], lambda _: says(image(), text("Please analyze the image above."))),
    "test_input_required_result_prompt": ([], asks_context),
}


def get_prompt(params):
    if params.get("name") not in PROMPTS:
        raise Refused(-32602, "there is no such prompt")
    names, prompt = PROMPTS[params["name"]]
    if any(name not in params.get("arguments", {}) for name in names):
        raise Refused(-32602, f"this prompt needs {', '.join(names)}")
    return prompt({"arguments": {}, **params})


def prompts():
    return [{"name": name, "description": f"The prompt {name}.",
             "arguments": [{"name": one, "description": one, "required": True} for one in names]}
            for name, (names, _) in PROMPTS.items()]


def complete(params):
    start = params["argument"]["value"]
    values = [word for word in ("paris", "park", "party") if word.startswith(start)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


# --- the protocol ----------------------------------------------------------------------------------


def initialize(params):
    asked = params.get("protocolVersion")
    version = asked if asked in LEGACY else LEGACY[0]
    return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}


METHODS = {
    "initialize": initialize,
    "ping": lambda _: {},
    "server/discover": lambda _: {"supportedVersions": [MODERN], "capabilities": CAPABILITIES,
                                  "_meta": {"io.modelcontextprotocol/serverInfo": INFO}},
    "tools/list": lambda _: {"tools": [
        {"name": name, "description": f"The tool {name}.", "inputSchema": schema}
        for name, (schema, _) in TOOLS.items()]},
    "tools/call": call,
    "resources/list": lambda _: {"resources": list(RESOURCES.values())},
    "resources/templates/list": lambda _: {"resourceTemplates": [TEMPLATE]},
    "resources/read": read,
    "resources/subscribe": lambda _: {},
    "resources/unsubscribe": lambda _: {},
    "prompts/list": lambda _: {"prompts": prompts()},
    "prompts/get": get_prompt,
    "completion/complete": complete,
}


def answer(message):
    params = message.get("params", {})
    is_modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
    try:
        if message["method"] not in METHODS:
            raise Refused(-32601, "unknown method")
        result = METHODS[message["method"]](params)
        if is_modern:
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
    except Asks as asks:
        result = asks.result
    except Refused as refused:
        return {"error": refused.error}
    return {"result": result}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        # A subscription is answered when it ends, and this server's offers do not change.
        if "id" in request and request.get("method") not in (None, "subscriptions/listen"):
            send({"id": request["id"], **answer(request)})
