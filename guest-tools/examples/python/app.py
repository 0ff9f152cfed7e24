"""The function of example-tool.wit."""

import wit_world


class WitWorld(wit_world.WitWorld):
    def example_tool(self, text: str) -> int:
        return len(text.split())
