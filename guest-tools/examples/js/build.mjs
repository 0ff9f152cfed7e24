// Builds the tool. Without these features it imports nothing, so it can only compute.
import { componentize } from "@bytecodealliance/componentize-js";
import { writeFile } from "node:fs/promises";

const { component } = await componentize({
  sourcePath: "example-tool.js",
  witPath: "example-tool.wit",
  worldName: "tool",
  disableFeatures: ["stdio", "random", "clocks", "http", "fetch-event"],
});
await writeFile("tools/example-tool.wasm", component);
