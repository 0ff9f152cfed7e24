// The console. Whatever others wrote becomes text nodes and nothing else. The credential is in this
// module's memory only, and goes when the page does, is locked, or is left alone for long.

const IDLE_MS = 30 * 60_000;
const CALLS_MAX = 300;
const SHIFT_MS = 600;
const RETRY_MS = 3_000;
// News come within 25 seconds. Without an end a connection that broke unnoticed would be waited for.
const ANSWER_MS = 40_000;
// What changes without a record is looked at so often where calls never pause.
const LOOK_MS = 25_000;
// Records after which what rests, what changed and what is switched may be another.
const TURNS = /^(tool|pin|anomaly|registry)\.|^host\.reloaded/;
const UNENDED = new Set(["running", "waiting"]);

const $ = (id) => document.getElementById(id);
let key = "";
let gone = new AbortController();
let state;

/** Makes an element; children are elements or text. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child || child === 0));
  return made;
}

/**
 * Makes the children of `list` those of `items`, each made once and found again by its name; says whether some went,
 * and the focus with them. They go first: what stays is not moved, so whoever types in it types on.
 */
function sync(list, items, name, make, renew = () => {}) {
  const old = new Map([...list.children].map((child) => [child.dataset.name, child]));
  const names = items.map(name);
  const wanted = new Set(names);
  const outdated = [...list.children].filter((child) => !wanted.has(child.dataset.name));
  const lost = outdated.some((child) => child.contains(document.activeElement));
  for (const child of outdated) child.remove();
  items.forEach((item, at) => {
    const child = old.get(names[at]) ?? make(item);
    child.dataset.name = names[at];
    if (list.children[at] !== child) list.insertBefore(child, list.children[at] ?? null);
    renew(child, item);
  });
  return { removed: outdated.length > 0, lost };
}

const put = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };
const show = (id, is) => { $(id).hidden = !is; };
const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const say = (text) => { $("said").textContent = ""; setTimeout(() => put("said", text), 50); };

/** Writes a value as JSON. The host gives a number that this page would round as its digits after a NUL. */
const written = (value, indent) => JSON.stringify(value, null, indent).replace(/"\\u0000([^"]*)"/g, "$1");
const isText = (value) => typeof value === "string" && !value.startsWith("\0");

function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}
function took(us) {
  if (us < 1000) return `${us} µs`;
  if (us < 1_000_000) return `${(us / 1000).toPrecision(3).replace(/\.?0+$/, "")} ms`;
  return `${(us / 1_000_000).toFixed(1)} s`;
}
function when(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  const clock = at.toLocaleTimeString("en-GB");
  return el("time", { datetime: at.toISOString(), title: at.toLocaleString("en-GB") },
    today ? clock : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock.slice(0, 5)}`);
}

/** Asks the host, for so long; throws an Error with its words, and `status` where the request itself failed. */
async function ask(method, params = {}, ms = undefined) {
  const signal = ms ? AbortSignal.any([gone.signal, AbortSignal.timeout(ms)]) : gone.signal;
  const answer = await fetch("/console/api", {
    method: "POST", credentials: "omit", cache: "no-store", redirect: "error", signal,
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: `clawhost.${method}`, params }),
  });
  const said = await answer.json().catch(() => ({}));
  const wrong = said.error?.message ?? said.error;
  if (!answer.ok || wrong) throw Object.assign(new Error(wrong ?? `status ${answer.status}`), { status: answer.status });
  return said.result;
}

/* ---------- opening and locking ---------- */

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  // It is being opened already: twice would be two pages in one.
  if (key) return;
  put("refused", "");
  key = $("credential").value.trim();
  gone = new AbortController();
  try {
    if (!/^[\x21-\x7e]+$/.test(key)) throw Object.assign(new Error(), { status: 401 });
    begin(await ask("news", {}, ANSWER_MS));
  } catch (error) {
    key = "";
    put("refused", { 401: "This host does not know that credential.", 403: "That is an agent’s token. The console opens with the operator’s credential." }[error.status] ?? `The host does not answer: ${error.message}`);
    $("credential").focus();
  }
});

function begin(news) {
  state = { calls: new Map(), seen: undefined, skew: 0, pending: [], whole: new Map(), used: Date.now(), shifted: 0, fresh: true };
  $("login").reset();
  show("door", false);
  show("house", true);
  take(news);
  view(true);
  follow(gone.signal);
  verify();
}

function lock(why = "") {
  gone.abort();
  key = "";
  state = undefined;
  for (const list of document.querySelectorAll("#house ul, #house ol, #house dl")) list.replaceChildren();
  for (const id of ["said", "link", "tally", "tools-said", "found-said", "log-said"]) put(id, "");
  $("search").reset();
  $("tools-find").value = "";
  show("older", false);
  put("lead", "Looking…");
  document.title = "clawhost";
  show("house", false);
  show("door", true);
  put("refused", why);
  $("credential").focus();
}
$("lock").addEventListener("click", () => lock());
for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => { if (state) state.used = Date.now(); }, { passive: true });

setInterval(() => {
  if (!state) return;
  // By the clock of the day: the other one may stand still while the machine sleeps.
  const idle = Date.now() - state.used;
  if (idle > IDLE_MS || idle < 0) return lock(idle < 0 ? "Locked, as the clock went back." : "Locked after half an hour untouched.");
  for (const left of document.querySelectorAll("[data-until]")) {
    const text = `${span(left.dataset.until - Date.now() - state.skew)} left`;
    if (left.textContent !== text) left.textContent = text;
  }
}, 1000);

/* ---------- news ---------- */

async function follow(signal) {
  while (!signal.aborted) {
    try {
      take(await ask("news", { seen: state.seen }, ANSWER_MS));
      put("link", "");
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401 || error.status === 403) return lock("The host no longer knows this credential.");
      put("link", `${error.status ? `The host says: ${error.message}.` : "The host does not answer."} What you see may be old; trying again.`);
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

function take(news) {
  const first = state.seen === undefined;
  const another = state.seen !== undefined && news.seen.chain !== state.seen.chain;
  // How those ended that were under way may be among what was skipped.
  if (another || news.skipped) state.calls.clear();
  const catalog = news.seen.catalog !== state.seen?.catalog;
  // An answer may have been one for later calls as well.
  const answered = news.seen.asked !== state.seen?.asked;
  state.skew = news.now_ms - Date.now();
  state.seen = news.seen;
  state.running = news.running;
  state.waiting = news.waiting.length;
  for (const record of news.records) note(record);
  const waits = new Set(news.waiting);
  for (const call of state.calls.values()) {
    if (UNENDED.has(call.ended)) call.ended = waits.has(call.call) ? "waiting" : "running";
  }
  while (state.calls.size > CALLS_MAX) state.calls.delete(state.calls.keys().next().value);
  questions(news);
  calls();
  const due = news.records.length === 0 || Math.abs(Date.now() - state.looked) > LOOK_MS;
  if (first || another || due || catalog || answered || news.records.some((one) => TURNS.test(one.event))) look();
}

function note(record) {
  const call = state.calls.get(record.call);
  if (record.event === "call.received") state.calls.set(record.call, { ...record, ended: "running" });
  if (record.event === "call.finished") state.calls.set(record.call, { ...call, ...record, time: call?.time ?? record.time });
}

/** Looks at what changes seldom. */
async function look() {
  if (state.looking) { state.again = true; return; }
  state.looking = true;
  state.looked = Date.now();
  try {
    const [tools, quarantine, pins, leases] = await Promise.all(
      ["tools.list", "quarantine.list", "pins.list", "approvals.leases"].map((what) => ask(what, {}, ANSWER_MS)));
    Object.assign(state, { tools, quarantine, pins: pins.pins });
    standing(leases.leases);
    attention();
    if (shown() === "tools") toolbox();
    if (shown() === "health") health();
  } catch { /* The next news say whether the host is there. */ }
  if (!state) return;
  state.looking = false;
  if (state.again) { state.again = false; look(); }
}

/* ---------- what waits ---------- */

const GONE = "That call waits no more: it was answered, withdrawn or out of time.";
const named = (one) => el("b", {}, one.tool);

function questions(news) {
  const before = new Set(state.pending.map((one) => one.id));
  const fresh = news.pending.filter((one) => !before.has(one.id));
  state.pending = news.pending;
  const { removed, lost } = sync($("waiting"), news.pending, (one) => one.id, question);
  if (removed) state.shifted = performance.now();
  // Not to the next question: whoever types on would answer it unread.
  if (lost) $("lead").focus();
  const { waiting } = state;
  const more = waiting - news.pending.length;
  put("waiting-more", `${plural(more, "more call waits", "more calls wait")}; they come up as these are answered.`);
  show("waiting-more", more > 0);
  show("waiting-none", waiting === 0);
  put("count-now", String(waiting));
  show("count-now", waiting > 0);
  document.title = waiting > 0 ? `(${waiting}) clawhost` : "clawhost";
  if (fresh.length === 1) say(`A call waits: ${fresh[0].tool}, by ${fresh[0].principal}.`);
  if (fresh.length > 1) say(`${fresh.length} more calls wait.`);
  put("lead", waiting === 0 ? "Nothing waits for you." : `${waiting === 1 ? "One call waits" : plural(waiting, "call waits", "calls wait")} for you.`);
}

function given(one) {
  const hidden = one.arguments_hidden;
  const more = hidden > 0 && el("p", { class: "note" }, `${plural(hidden, "more argument is", "more arguments are")} not shown.`);
  const all = (...parts) => el("div", { class: "given", tabindex: -1, role: "group", "aria-label": `The arguments of ${one.tool}` }, parts, more);
  // With a name that could pass for another one they are a text.
  if (typeof one.arguments !== "object" || one.arguments === null) {
    return all(el("pre", { class: "diff", tabindex: 0, role: "group", "aria-label": "As text" }, String(one.arguments)),
      Object.keys(one.arguments_cut ?? {}).length > 0 && el("p", { class: "note" }, "Only the start of long arguments is shown."));
  }
  // Short ones first, as on the command line: a long one hides no other.
  const sorted = Object.entries(one.arguments).sort(([, a], [, b]) => JSON.stringify(a).length - JSON.stringify(b).length);
  const rows = sorted.map(([name, value]) => {
    const text = isText(value) ? value : written(value, 1);
    // By a name of its own: some names are in every object.
    const cut = Object.hasOwn(one.arguments_cut ?? {}, name) ? one.arguments_cut[name] : undefined;
    const long = cut !== undefined || text.length > 200 || text.includes("\n");
    const shown = long ? el("pre", { tabindex: 0, role: "group", "aria-label": `${name}, ${cut ? "its start" : "in full"}` }, text) : isText(value) ? `"${text}"` : text;
    return el("div", {}, el("dt", {}, name), el("dd", {}, shown, cut && el("p", { class: "note" }, `Only the start of ${cut.toLocaleString("en")} bytes.`)));
  });
  return all(rows.length > 0 ? el("dl", { class: "arguments" }, rows) : el("p", { class: "why" }, "It is called without arguments."));
}

function question(one) {
  const rule = one.policy ? `rule ${one.policy}/${one.rule_id} · ` : "";
  const card = el("li", { class: "card wait" });
  const title = `q-${one.id}`;
  const select = (label, ...options) => {
    const made = el("select", {}, options.map(([value, text]) => el("option", { value }, text)));
    return [made, el("label", {}, label, made)];
  };
  const [time, timeLabel] = select("Later calls", ["", "are asked about again"], ["600000", "run for 10 minutes"], ["3600000", "run for an hour"], ["86400000", "run for a day"], ["session", "run until the host stops"]);
  const [which, whichLabel] = select("if they have", ["exactly", "exactly these arguments"], ["any", "any arguments"]);
  const reason = el("input", { maxlength: 500, autocomplete: "off" });
  const said = el("p", { class: "note", role: "alert" });
  const decide = (method, params, done) => async (event) => {
    // What moved under a finger was not what was meant.
    if (event.detail > 0 && performance.now() - state.shifted < SHIFT_MS) return say("The list moved just now. Look again, then press.");
    if (card.dataset.busy) return;
    card.dataset.busy = "yes";
    try {
      const answer = await ask(`approvals.${method}`, { id: one.id, ...params() });
      say(answer.acknowledged ? `${done}: ${one.tool}.` : GONE);
      look();
    } catch (error) {
      said.textContent = error.message;
    }
    delete card.dataset.busy;
  };
  const lease = () => time.value === "" ? {} : {
    lease: { until: time.value === "session" ? "session" : Number(time.value), arguments: which.value === "any" ? "any" : { exactly: one.digest } },
  };
  // A key that is held has pressed once.
  const keydown = (event) => { if (event.repeat) event.preventDefault(); };
  const approve = el("button", { class: "primary", "aria-describedby": title, keydown, click: decide("approve", lease, "Approved") }, "Approve");
  const deny = el("button", { class: "bad push", "aria-describedby": title, click: decide("deny", () => reason.value ? { reason: reason.value } : {}, "Denied") }, "Deny");
  const reveal = async () => {
    try {
      const [whole] = (await ask("approvals.show", { id: one.id })).pending;
      if (!whole) { said.textContent = GONE; return; }
      const all = given(whole);
      card.querySelector(".given").replaceWith(all);
      first.replaceWith(approve);
      state.shifted = performance.now();
      // Not to the button: whoever presses on would approve unread.
      all.focus();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const first = one.whole ? approve : el("button", { class: "primary", "aria-describedby": title, keydown, click: reveal }, "Show everything first");
  card.append(
    el("h2", { id: title }, named(one), ` called by ${one.principal}`, el("span", { class: "left", "data-until": one.expires_at_ms }, `${span(one.expires_at_ms - Date.now() - state.skew)} left`)),
    el("p", {}, one.reason),
    given(one),
    el("p", { class: "quiet fine" }, `${rule}silence ${one.silence === "allows" ? "lets it run" : "denies it"}`),
    el("div", { class: "acts" }, first, deny),
    el("details", {}, el("summary", {}, "Say more"), el("div", { class: "more" }, timeLabel, whichLabel, el("label", {}, "When denied, the caller reads", reason))),
    said);
  return card;
}

function standing(leases) {
  show("leases-part", leases.length > 0);
  put("count-leases", String(leases.length));
  const { lost } = sync($("leases"), leases, (one) => one.id, (one) => {
    const covers = one.covers === "any" ? "any arguments" : one.covers?.exactly ? "exactly the same arguments" : Object.entries(one.covers?.matching ?? {}).map(([name, fits]) => `${name}=${fits}`).join(", ");
    const ends = one.ends_at_ms ? `until ${new Date(one.ends_at_ms).toLocaleString("en-GB")}` : "until the host stops";
    return el("li", { class: "line" }, el("span", {}, el("code", {}, one.tool), ` for ${one.principal}, with ${covers}, ${ends}`),
      el("button", { click: acted("approvals.revoke", { id: one.id }, "Revoked"), "aria-label": `Revoke the approval of ${one.tool} for ${one.principal}` }, "Revoke"));
  });
  if (lost) (leases.length > 0 ? $("leases-part").querySelector("summary") : $("lead")).focus();
}

/** Returns what a button does that asks for one thing and then looks again. */
function acted(method, params, done, said) {
  return async (event) => {
    const button = event.currentTarget;
    if (button.getAttribute("aria-disabled")) return;
    button.setAttribute("aria-disabled", "true");
    try {
      const answer = await ask(method, typeof params === "function" ? params() : params);
      say(answer.acknowledged === false ? "It is not there any more." : `${done}.`);
      await look();
    } catch (error) {
      say(error.message);
      if (said) said.textContent = error.message;
    }
    button.removeAttribute("aria-disabled");
  };
}

/* ---------- what needs a look ---------- */

function attention() {
  const { tools, quarantine, pins } = state;
  const items = [
    ...pins.map((pin) => ({ name: `p ${JSON.stringify([pin.server, pin.tool, pin.digest])}`, make: () => changed(pin) })),
    ...quarantine.holds.map((hold) => ({ name: `q ${hold.tool} ${hold.principal} ${hold.until_ms}`, make: () => resting(hold) })),
    ...tools.servers.filter((one) => one.reason && one.tools === 0 && !pins.some((pin) => pin.server === one.name)).map((one) => ({
      name: `s ${one.name} ${one.reason}`, make: () => el("li", { class: "card alarm" }, el("h3", {}, "The MCP server ", el("b", {}, one.name), " gives no tools"), el("p", { class: "why" }, one.reason)),
    })),
  ];
  const { lost } = sync($("attention"), items, (one) => one.name, (one) => one.make());
  show("attention-part", items.length > 0);
  if (lost) $(items.length > 0 ? "h-attention" : "lead").focus();
}

function changed(pin) {
  const said = el("p", { class: "note", role: "alert" });
  const lines = pin.changes.map((line) => el("span", { class: line.startsWith("-") ? "out" : line.startsWith("+") ? "in" : "" }, `${line}\n`));
  const is = pin.state === "new" ? " offers a tool that nobody has accepted: " : " says something else about ";
  return el("li", { class: "card alarm" },
    el("h3", {}, pin.component_of ? el("span", {}, "The component of the tool ", el("b", {}, pin.component_of), " needs more than was accepted") : el("span", {}, `The MCP server ${pin.server}${is}`, el("b", {}, pin.tool))),
    el("p", { class: "why" }, "It is not served until you accept what stands here.", " Since ", when(pin.changed_at_ms), "."),
    el("div", { class: "diff", tabindex: 0, role: "group", "aria-label": `What ${pin.server} says about ${pin.tool}` }, lines),
    el("div", { class: "acts" }, el("button", { class: "primary", click: acted("pins.accept", { server: pin.server, tool: pin.tool, digest: pin.digest }, `Accepted: ${pin.tool}`, said), "aria-label": `Accept what ${pin.server} says about ${pin.tool}` }, "Accept")),
    said);
}

function resting(hold) {
  const seen = state.quarantine.anomalies.find((one) => one.signature === hold.signature && one.tool === hold.tool);
  const reason = el("input", { maxlength: 500, autocomplete: "off", value: "" });
  const said = el("p", { class: "note", role: "alert" });
  return el("li", { class: "card alarm" },
    el("h3", {}, el("b", {}, hold.tool), ` rests for ${hold.principal}`),
    el("p", { class: "why" }, seen ? `It failed ${plural(seen.times, "time")}: ${seen.message || seen.code}. ` : "It failed again and again. ", "One call may try it again at ", when(hold.until_ms), "."),
    seen?.procedure && el("p", {}, `What helps: ${seen.procedure}`),
    el("div", { class: "acts" }, el("label", {}, "Why it may be called again", reason),
      el("button", { click: acted("quarantine.release", () => ({ tool: hold.tool, reason: reason.value || "released in the console" }), `Released: ${hold.tool}`, said), "aria-label": `Release ${hold.tool}` }, "Release")),
    said);
}

/* ---------- calls ---------- */

function calls() {
  const all = [...state.calls.values()].reverse();
  const ended = (how) => all.filter((call) => call.ended === how).length;
  const wanted = document.querySelector("[name=show]:checked").value;
  const shown = all.filter((call) => wanted === "" || call.ended === wanted || (wanted === "running" && UNENDED.has(call.ended))).slice(0, CALLS_MAX);
  const [failed, refused, busy] = [ended("failed"), ended("refused"), state.running];
  put("tally", all.length === 0 ? "" : `Of the last ${plural(all.length, "call")}, ${failed === 0 ? "none" : failed} failed and ${refused === 0 ? "none" : refused} ${refused > 1 ? "were" : "was"} refused. ${busy > 0 ? `${busy === 1 ? "One runs" : `${busy} run`} now.` : state.waiting > 0 ? "None runs but those that wait." : "None runs now."}`);
  sync($("calls"), shown, (call) => call.call, () => el("li", { class: "call" }), line);
  const nothing = { "": "No call yet. Calls appear here as they arrive and end.", failed: "None of these calls failed.", refused: "None of these calls was refused.", running: "No call runs." };
  put("calls-none", nothing[wanted]);
  show("calls-none", shown.length === 0);
}
for (const chip of document.querySelectorAll("[name=show]")) chip.addEventListener("change", calls);

const WORDS = { ok: "ended well", failed: "failed", refused: "refused", cancelled: "cancelled", running: "under way", waiting: "waits" };

function line(row, call) {
  const stamp = `${call.ended} ${call.duration_us}`;
  if (row.dataset.stamp === stamp) return;
  row.dataset.stamp = stamp;
  row.replaceChildren(...parts(call));
}
function parts(call) {
  const says = call.ended === "ok" ? "" : (call.message ?? call.error ?? "");
  return [when(call.time), el("span", { class: "tool" }, call.tool), el("span", { class: "who" }, call.principal), el("span", { class: `state ${call.ended}` }, WORDS[call.ended] ?? call.ended),
    el("span", { class: "took" }, call.duration_us === undefined ? "" : took(call.duration_us)), says && el("span", { class: "says" }, String(says))].filter(Boolean);
}

/* ---------- tools ---------- */

function toolbox() {
  const { tools, refused, off, loading } = state.tools;
  const wanted = $("tools-find").value.toLowerCase();
  const found = tools.filter((tool) => `${tool.name} ${tool.may_touch} ${tool.origin} ${tool.description}`.toLowerCase().includes(wanted));
  const disabled = tools.filter((tool) => tool.policy === "disabled").length;
  put("tools-said", `${plural(tools.length, "tool is", "tools are")} here${disabled > 0 ? `, ${disabled} of them disabled` : ""}${loading.length > 0 ? `; ${loading.length} still load` : ""}.`);
  const held = document.activeElement?.closest("[data-tool]")?.dataset.tool;
  const { lost } = sync($("tools"), found, (tool) => JSON.stringify([tool, switchOf(tool)]), tool);
  // The focus goes to the card that stands for the same tool now.
  if (lost) ([...$("tools").children].find((card) => card.dataset.tool === held)?.querySelector("h2") ?? $("h-tools")).focus();
  put("tools-none", tools.length === 0 ? "No tool is served. List tools under `tools:` of the manifest." : "No tool is called so or touches that.");
  show("tools-none", found.length === 0);
  const here = new Set(tools.map((one) => one.uri.split("/").pop()));
  const unserved = [...refused.map((one) => ({ ...one, name: `${one.source} ${one.reason}` })), ...off.filter((one) => !here.has(one.tool)).map((one) => ({ ...one, name: `off ${one.tool}` }))];
  show("unserved-part", unserved.length > 0);
  const served = sync($("unserved"), unserved, (one) => one.name, (one) => one.tool
    ? el("li", { class: "line" }, el("span", {}, el("code", {}, one.tool), " is switched off, and nobody offers it now"), el("button", { click: acted("tools.enable", { tool: one.tool }, `Enabled: ${one.tool}`), "aria-label": `Enable ${one.tool}` }, "Enable"))
    : el("li", {}, el("p", {}, one.source), el("p", { class: "quiet" }, one.reason)));
  if (served.lost) $("h-tools").focus();
}
$("tools-find").addEventListener("input", toolbox);

/** Returns the switch that keeps a tool off. */
const switchOf = (one) => state.tools.off.find((off) => off.tool === one.uri.split("/").pop());
const POLICY = { allowed: "runs by itself", asks: "asks a person", disabled: "disabled", refused: "refused by policy" };

function tool(one) {
  const ckp = one.uri.split("/").pop();
  const off = switchOf(one);
  const isOff = one.policy === "disabled";
  const reason = el("input", { maxlength: 500, autocomplete: "off" });
  const said = el("p", { class: "note", role: "alert" });
  const turn = isOff
    ? el("button", { click: acted("tools.enable", { tool: ckp }, `Enabled: ${one.name}`, said), "aria-label": `Enable ${one.name}` }, "Enable")
    : el("button", { class: "bad", click: acted("tools.disable", () => ({ tool: ckp, ...(reason.value && { reason: reason.value }) }), `Disabled: ${one.name}`, said), "aria-label": `Disable ${one.name}` }, "Disable");
  const touch = one.may_touch !== "nothing" ? `${one.may_touch.charAt(0).toUpperCase()}${one.may_touch.slice(1)}.`
    : one.kind === "bridged" ? "Calls its MCP server, and touches nothing of this machine itself." : "Touches nothing.";
  return el("li", { class: "card tight", "data-tool": one.uri },
    el("h2", { tabindex: -1 }, el("b", {}, one.name), el("span", { class: "quiet" }, one.kind), el("span", { class: `state ${one.policy} left` }, POLICY[one.policy] ?? one.policy)),
    el("p", {}, touch),
    off && el("p", { class: "why" }, `Neither listed nor called${off.reason ? `: ${off.reason}` : ""}. Since `, when(off.since_ms), "."),
    one.quarantine.length > 0 && el("p", { class: "why" }, `Rests for ${one.quarantine.map((hold) => hold.principal).join(", ")}.`),
    isOff && el("div", { class: "acts" }, turn),
    el("details", {}, el("summary", { "aria-label": `More about ${one.name}` }, "More"),
      el("p", { class: "words" }, one.description),
      el("p", { class: "quiet mono" }, `${one.origin} · sandbox ${one.sandbox} · ${span(one.timeout_ms)} a call`),
      el("p", { class: "quiet mono" }, one.digest),
      !isOff && el("div", { class: "more" }, el("label", {}, "Why, for its callers", reason), turn)),
    said);
}

/* ---------- record ---------- */

let searched = 0;
async function search(before) {
  const form = new FormData($("search"));
  const params = {};
  for (const name of ["ended", "agent", "tool"]) if (form.get(name)) params[name] = form.get(name).trim();
  if (form.get("since")) params.since = new Date(Date.now() - form.get("since") * 1000).toISOString();
  if (before) params.before = before;
  const mine = ++searched;
  put("found-said", "Searching…");
  try {
    const { calls: found, next } = await ask("audit.search", params);
    if (mine !== searched) return;
    const rows = found.map((call) => el("li", { class: "call" }, parts(call), el("details", {}, el("summary", { "aria-label": `The record of ${call.tool}, ${call.time}` }, "Record"), facts(call))));
    if (before) $("found").append(...rows); else $("found").replaceChildren(...rows);
    const total = $("found").children.length;
    put("found-said", total === 0 && !next ? "No call fits. Choose an earlier time, or leave a field empty." : `${plural(total, "call")}${next ? " so far" : ""}.`);
    show("older", Boolean(next));
    $("older").onclick = () => search(next);
    if (before && rows.length > 0) rows[0].querySelector("summary").focus();
  } catch (error) {
    if (state) put("found-said", error.message);
  }
}
function facts(record) {
  const told = Object.entries(record).filter(([name]) => !["v", "event", "ended"].includes(name));
  return el("dl", { class: "arguments" }, told.map(([name, value]) => el("div", {}, el("dt", {}, name),
    el("dd", {}, isText(value) ? value : written(value, 2)))));
}
$("search").addEventListener("submit", (event) => { event.preventDefault(); search(); });

/* ---------- health ---------- */

async function health() {
  try {
    const status = await ask("status");
    const rows = [["Up for", span(status.uptime_ms)], ["Version", status.version], ["Process", String(status.pid)], ["Calls running", String(state.running)], ["Waiting for you", String(state.waiting)], ["Tools served", String(status.tools.length)], ["Refused", String(status.refused.length)], ["Loading", String(status.loading.length)]];
    sync($("health"), rows, ([name]) => name, ([name]) => el("div", {}, el("dt", {}, name), el("dd")), (row, [, text]) => { row.lastChild.textContent = text; });
  } catch { return; }
  const servers = state.tools?.servers ?? [];
  show("servers-none", servers.length === 0);
  sync($("servers"), servers, (one) => JSON.stringify(one), (one) => {
    const how = one.tools > 0 && !one.reason ? ["allowed", `serves ${plural(one.tools, "tool")}`] : one.awaited ? ["asks", "connecting"] : one.tools > 0 ? ["asks", `serves ${plural(one.tools, "tool")}`] : ["disabled", "gives no tools"];
    return el("li", { class: "line" }, el("code", {}, one.name), el("span", { class: `state ${how[0]}` }, how[1]), one.reason && el("span", { class: "quiet" }, one.reason));
  });
}

async function verify() {
  put("log-said", "Checking every line and signature…");
  try {
    const { chains } = await ask("audit.verify");
    const broken = chains.filter((chain) => chain.broken);
    const sum = (of) => chains.reduce((all, chain) => all + (of(chain) ?? 0), 0);
    put("log-said", broken.length === 0
      ? `It holds: ${plural(sum((one) => one.records), "record")} in ${plural(chains.length, "chain")}, ${sum((one) => one.signed).toLocaleString("en")} under a signature. Checked at ${new Date().toLocaleTimeString("en-GB")}.`
      : `It does not hold: ${plural(broken.length, "chain is", "chains are")} broken.`);
    sync($("log"), broken, (one) => one.chain, (one) => el("li", {}, el("code", {}, one.chain), el("p", {}, one.broken)));
  } catch (error) {
    if (state) put("log-said", `It could not be checked: ${error.message}`);
  }
}
$("verify").addEventListener("click", verify);

/* ---------- views ---------- */

const views = [...document.querySelectorAll("[data-view]")];
const shown = () => views.find((one) => !one.hidden).dataset.view;

function view(first = false) {
  if (!state) return;
  const wanted = views.find((one) => `#${one.dataset.view}` === location.hash) ?? views[0];
  for (const one of views) one.hidden = one !== wanted;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${wanted.dataset.view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const name = wanted.dataset.view;
  if (name === "tools" && state.tools) toolbox();
  if (name === "record" && $("found").children.length === 0) search();
  if (name === "health") health();
  const heading = wanted.querySelector("h1");
  heading.focus({ preventScroll: !first });
  scrollTo(0, 0);
}
addEventListener("hashchange", () => view());
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  views.find((one) => !one.hidden).querySelector("h1").focus();
});
