"""Talks to a host's proxy through a client of others, as its own documentation says, and prints what it got.

Usage: clients.py SCENARIO AUTHORITY KEY. One line of JSON on standard output.
"""

import json
import sys

SCENARIO, AUTHORITY, KEY = sys.argv[1:]
ASKED = [{"role": "user", "content": "What is it?"}]


def openai_client():
    import openai

    return openai.OpenAI(base_url=f"http://{AUTHORITY}/v1", api_key=KEY, max_retries=0)


def anthropic_client():
    import anthropic

    return anthropic.Anthropic(base_url=f"http://{AUTHORITY}", api_key=KEY, max_retries=0)


def openai_whole():
    got = openai_client().chat.completions.create(model="main", messages=ASKED)
    choice = got.choices[0]
    return [choice.message.content, choice.finish_reason, got.usage.total_tokens]


def openai_streamed():
    chunks = openai_client().chat.completions.create(
        model="main", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    text, finish, tokens = "", None, None
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
        tokens = chunk.usage.total_tokens if chunk.usage else tokens
    return [text, finish, tokens]


def responses_whole():
    got = openai_client().responses.create(model="main", input=ASKED)
    return [got.output_text, got.status, got.usage.total_tokens, len(got.tools)]


def responses_streamed():
    with openai_client().responses.stream(model="main", input="What is it?") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        got = stream.get_final_response()
    return [text, got.status, got.usage.total_tokens, len(got.tools)]


def responses_kept():
    responses = openai_client().responses
    made = responses.create(model="main", input=ASKED)
    got = responses.retrieve(made.id)
    following = responses.create(model="main", input="And then?", previous_response_id=made.id)
    responses.delete(made.id)
    return [got.output_text, following.output_text]


def anthropic_whole():
    got = anthropic_client().messages.create(model="claude", max_tokens=100, messages=ASKED)
    return [got.content[-1].text, got.stop_reason, got.usage.input_tokens + got.usage.output_tokens]


def anthropic_streamed():
    with anthropic_client().messages.stream(model="claude", max_tokens=100, messages=ASKED) as stream:
        text = "".join(stream.text_stream)
        got = stream.get_final_message()
    return [text, got.stop_reason, got.usage.input_tokens + got.usage.output_tokens]


def openai_refused():
    import openai

    try:
        openai_whole()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code]


def anthropic_refused():
    import anthropic

    try:
        anthropic_whole()
    except anthropic.APIStatusError as error:
        return [type(error).__name__, error.status_code]


def responses_broken():
    import openai

    try:
        responses_streamed()
    except openai.APIError as error:
        return [type(error).__name__, error.type]


def anthropic_counted():
    client = anthropic_client()
    tokens = client.messages.count_tokens(model="claude", messages=ASKED).input_tokens
    return [tokens, client.models.retrieve("claude").id, len(client.models.list().data)]


def openai_broken():
    import openai

    try:
        openai_streamed()
    except openai.APIError as error:
        return [type(error).__name__, error.type]


def anthropic_broken():
    import anthropic

    try:
        anthropic_streamed()
    except anthropic.APIError as error:
        return [type(error).__name__, error.body["error"]["type"]]


def run_with_a_tool_of_its_own(of_model):
    from pydantic_ai import Agent
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"http://{AUTHORITY}/v1", api_key=KEY)
    agent = Agent(of_model("main", provider=provider))
    called = []

    @agent.tool_plain
    def own(a: int) -> str:
        """The runner's own tool."""
        called.append(a)
        return "mine"

    return [agent.run_sync("What is it?").output, called]


def pydantic_ai():
    from pydantic_ai.models.openai import OpenAIChatModel

    return run_with_a_tool_of_its_own(OpenAIChatModel)


def pydantic_ai_responses():
    from pydantic_ai.models.openai import OpenAIResponsesModel

    return run_with_a_tool_of_its_own(OpenAIResponsesModel)


def pydantic_ai_streamed():
    import asyncio

    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=f"http://{AUTHORITY}", api_key=KEY)
    agent = Agent(AnthropicModel("claude", provider=provider))
    called = []

    @agent.tool_plain
    def own(a: int) -> str:
        """The runner's own tool."""
        called.append(a)
        return "mine"

    async def run():
        async with agent.run_stream("What is it?") as result:
            return await result.get_output()

    return [asyncio.run(run()), called]


def langchain():
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    called = []

    def own(a: int) -> str:
        """The runner's own tool."""
        called.append(a)
        return "mine"

    model = ChatOpenAI(model="main", base_url=f"http://{AUTHORITY}/v1", api_key=KEY, max_retries=0)
    agent = create_agent(model, tools=[own])
    got = agent.invoke({"messages": ASKED})
    return [got["messages"][-1].content, called]


print(json.dumps(globals()[SCENARIO]()))
