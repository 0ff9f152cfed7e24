"""What a program is watched at while it is built for handing out: a start, and calls of its tools."""

import servers
from measure import CONNECTIONS, EACH_TOOL, TEXT
from servers import call

SECONDS_A_LOAD = 5
# Under emulation, or while it counts what it does, a start takes many times as long.
servers.START_S = 300


def on_pipes(world, calls):
    server = world.start("clawhost")
    for tool, words in EACH_TOOL.items():
        server.times(call(tool, words), calls, may_fail=True)
    server.end()


def over_http(world):
    server = world.start_http("clawhost")
    server.load("text_echo", TEXT, CONNECTIONS[1], SECONDS_A_LOAD)
    server.end()
