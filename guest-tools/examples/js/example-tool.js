// The function of example-tool.wit.
export function exampleTool(text) {
  return text.split(/\s+/).filter((word) => word !== "").length;
}
