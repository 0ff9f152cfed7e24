// `tools`: what a program calls other tools by.
{
  const host = globalThis.__host;
  delete globalThis.__host;
  class ToolError extends Error {
    constructor({ code, kind, message }) {
      super(message);
      Object.assign(this, { name: "ToolError", code, kind });
    }
  }
  const answer = (...given) => {
    const { value, error } = JSON.parse(host(...given));
    if (error) throw new ToolError(error);
    return value;
  };
  const own = Object.freeze({
    ToolError,
    call: (name, args = {}) => answer(String(name), JSON.stringify(args)),
    list: () => answer("", ""),
  });
  globalThis.tools = new Proxy(own, {
    // An object with `then` would be taken for a promise.
    get: (_, name) => own[name] ??
      (typeof name === "symbol" || name === "then" ? undefined : (args) => own.call(name, args)),
  });
}
