// `tools`: what a program calls other tools by.
{
  const host = globalThis.__host;
  delete globalThis.__host;
  const answer = (...given) => {
    const { value, error } = JSON.parse(host(...given));
    if (error) throw Object.assign(new Error(error.message), { name: "ToolError", ...error });
    return value;
  };
  const own = Object.freeze({
    call: (name, args = {}) => answer(String(name), JSON.stringify(args)),
    list: () => answer("", ""),
  });
  globalThis.tools = new Proxy(own, {
    // An object with `then` would be taken for a promise.
    get: (_, name) => own[name] ??
      (typeof name === "symbol" || name === "then" ? undefined : (args) => own.call(name, args)),
  });
}
