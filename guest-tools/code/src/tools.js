// `tools`: what a program calls other tools by.
{
  const { __host: host, __list: list } = globalThis;
  delete globalThis.__host;
  delete globalThis.__list;
  class ToolError extends Error {
    constructor({ code, kind, message }) {
      super(message);
      Object.assign(this, { name: "ToolError", code, kind });
    }
  }
  const told = ({ value, error }) => {
    if (error) throw new ToolError(error);
    return value;
  };
  const answers = (calls) => JSON.parse(host(JSON.stringify(calls)));
  // Text whatever is given, so that one call costs no other its answer.
  const given = (name, args = {}) => [String(name).toWellFormed(), JSON.stringify(args) ?? "null"];
  const started = [];
  let sent;
  const send = () => {
    sent = undefined;
    return answers(started.splice(0));
  };
  const own = Object.freeze({
    ToolError,
    call: (...call) => told(answers([given(...call)])[0]),
    list: () => JSON.parse(list()),
    // All that is started before the program waits goes out together.
    start: async (...call) => {
      const at = started.push(given(...call)) - 1;
      sent ??= Promise.resolve().then(send);
      return told((await sent)[at]);
    },
  });
  globalThis.tools = new Proxy(own, {
    // An object with `then` would be taken for a promise.
    get: (_, name) => own[name] ??
      (typeof name === "symbol" || name === "then" ? undefined : (args) => own.call(name, args)),
  });
}
