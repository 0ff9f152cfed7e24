// Drives the console in a real browser: `node browser.mjs PROGRAM FOLDER STATE CACHE [IMAGES]`.
//
// Starts a host with a tool that asks first, and behind it an MCP server whose words are hostile. Each
// step says what it saw; the first that is wrong ends the run. With IMAGES, pictures are left there.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, request } from "node:http";
import { createRequire } from "node:module";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const [program, folder, state, cache, images] = process.argv.slice(2);
const require = createRequire(new URL("../../target/console/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const SOON = 20_000;
const PHONE = { width: 360, height: 740 };
const DESK = { width: 1100, height: 820 };

const step = (text) => console.log(`- ${text}`);
const HOSTILE = "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=2</script> \u202egnisrever\u202c <b>bold</b>";

/* ---------- a server whose words are hostile ---------- */

let look = HOSTILE;
const tools = () => [
  { name: "look_up", description: look, inputSchema: { type: "object", properties: { q: { type: "string" } } } },
  { name: "fails", description: "Fails each time.", inputSchema: { type: "object" } },
  { name: "runs", description: "Runs a script.", inputSchema: { type: "object" } },
];
const listening = new Set();
const server = createServer(async (req, res) => {
  if (req.method !== "POST") return void res.writeHead(405).end();
  let body = "";
  for await (const part of req) body += part;
  const { id, method, params } = JSON.parse(body);
  const answer = (result) => res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, ...result }));
  if (method === "initialize") return answer({ result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "hostile", version: "1" } } });
  if (id === undefined) return void res.writeHead(202).end();
  if (method === "tools/list") return answer({ result: { tools: tools() } });
  if (method === "tools/call" && params.name === "fails") return answer({ result: { content: "<i>no list</i>" } });
  if (method === "tools/call") return answer({ result: { content: [{ type: "text", text: `looked up ${params.arguments.q}` }] } });
  answer({ error: { code: -32601, message: "no such method" } });
}).listen(0, "127.0.0.1");
await once(server, "listening");

/* ---------- the host ---------- */

mkdirSync(join(folder, "workspace"), { recursive: true });
writeFileSync(join(folder, "workspace/notes.md"), "Rotate the keys on Friday.\n");
mkdirSync(join(folder, "other"), { recursive: true });
/** Writes a manifest whose sandbox has one folder. */
const manifest = (granted) => writeFileSync(join(folder, "claw.yaml"), `claw: "0.3.0"
kind: Claw
metadata: { name: console }
spec:
  identity: { inline: { personality: Tests., autonomy: autonomous } }
  providers:
    - inline: { protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: { type: none } }
  sandbox:
    inline:
      level: wasm
      capabilities:
        filesystem: { mode: scoped, mount_paths: [{ path: ./${granted}, permissions: rw }] }
  tools:
    - { name: read-file }
    - { name: write-file }
    - { name: list-directory }
  policies:
    - inline:
        name: careful
        rules:
          - { id: ask-before-writing, action: require-approval, scope: tool, match: { name: write-file }, reason: a person looks first }
          - { id: ask-before-running, action: require-approval, scope: tool, match: { name: index-runs }, reason: scripts are read first }
          - { id: no-secrets, action: deny, scope: tool, match: { name: list-directory }, reason: folders are not for listing here }
          - { id: the-rest, action: allow, scope: all, reason: each tool is kept to its sandbox }
`);
manifest("workspace");
writeFileSync(join(folder, "clawhost.yaml"), `version: 1
tools:
  mcp_servers:
    index: { url: "http://127.0.0.1:${server.address().port}/mcp", internal_only: false }
`);
const host = spawn(program, ["run", "--http", "127.0.0.1:0"], { cwd: folder, env: { XDG_STATE_HOME: state, XDG_CACHE_HOME: cache }, stdio: ["ignore", "pipe", "pipe"] });
let greeting = "", complaints = "";
host.stderr.on("data", (part) => (complaints += part));
const stop = () => { host.kill(); server.closeAllConnections(); server.close(); };
process.on("exit", stop);
for await (const part of host.stdout) {
  greeting += part;
  if ((greeting.match(/mcpServers/g) ?? []).length === 2 && greeting.endsWith("\n}\n")) break;
}
const address = /http:\/\/([^/]+)\/mcp/.exec(greeting)?.[1];
assert(address, `the host did not come up: ${greeting}${complaints}`);
const credentials = JSON.parse(readFileSync(join(state, "clawhost/credentials.json"), "utf8"));
const [operator, agent] = [credentials.operator, Object.values(credentials.agents)[0]];

/** Calls a tool as the agent; resolves with the answer when the call has ended. What is "exactly" a number is sent so. */
function call(name, args) {
  const params = { name, arguments: args, _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": { name: "t", version: "0" } } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }).replace(/"exactly (\d+)"/g, "$1");
  return new Promise((done, failed) => {
    const asked = request(`http://${address}/mcp`, { method: "POST", headers: { authorization: `Bearer ${agent}`, "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name } }, async (res) => {
      let text = "";
      for await (const part of res) text += part;
      done(text);
    });
    asked.on("error", failed);
    asked.end(body);
  });
}

/* ---------- the browser ---------- */

const executablePath = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: DESK, reducedMotion: "reduce" });
const page = await context.newPage();
page.setDefaultTimeout(SOON);
const wrongs = [];
page.on("pageerror", (error) => wrongs.push(String(error)));
page.on("console", (message) => { if (message.type() === "error" && !/status of 40[13]|favicon/.test(message.text())) wrongs.push(message.text()); });
const methods = [];
page.on("request", (sent) => {
  const method = sent.postDataJSON()?.method;
  if (method) methods.push(method.replace("clawhost.", ""));
});
page.on("request", (sent) => { if (new URL(sent.url()).host !== address) wrongs.push(`it asked ${sent.url()}`); });

async function fine(what) {
  const results = await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    return (await window.axe.run(document, { resultTypes: ["violations"] })).violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).join(" | ")}`);
  }, AXE).catch((error) => [String(error)]);
  assert.deepEqual(results, [], `axe on ${what}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert(wide <= 0, `${what} is ${wide} pixels too wide`);
}
/** Looks at the view as it is: both colour schemes, both widths. */
async function looked(name) {
  for (const colorScheme of ["light", "dark"]) {
    for (const [kind, size] of [["desk", DESK], ["phone", PHONE]]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize(size);
      await fine(`${name}, ${colorScheme}, ${kind}`);
      if (images) await page.screenshot({ path: join(images, `${name}-${colorScheme}-${kind}.png`), fullPage: kind === "phone" });
    }
  }
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize(DESK);
}
const press = (keys) => page.keyboard.press(keys);
/** Goes on with the tab key until what has the focus has that name. */
async function tabTo(name) {
  for (let n = 0; n < 60; n++) {
    const focused = await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.innerText ?? "");
    if (focused.trim() === name) return;
    await press("Tab");
  }
  assert.fail(`the tab key does not lead to ${name}`);
}
const card = (text) => page.locator("#waiting .card", { hasText: text });
const asks = (method) => (sent) => sent.postDataJSON()?.method === `clawhost.${method}`;
/** Changes the next answer to `method` on its way; `methods` are then those asked after it. */
async function altered(method, change, cause) {
  const where = "**/console/api";
  let [done, isFirst] = [undefined, true];
  const ended = new Promise((resolve) => (done = resolve));
  await page.route(where, async (route) => {
    if (!isFirst || !asks(method)(route.request())) return route.fallback();
    isFirst = false;
    const answer = await route.fetch();
    const body = await answer.json();
    change(body.result);
    methods.length = 0;
    await route.fulfill({ response: answer, json: body });
    done();
  });
  await cause();
  await ended;
  await page.unroute(where);
}
/** Changes the next news, which are of a call, and waits until the page asks for more. */
async function news(change) {
  const read = () => call("read_file", { path: "notes.md" });
  let after;
  await altered("news", change, async () => {
    const next = page.waitForRequest(asks("news"));
    await read();
    await next;
    after = page.waitForRequest(asks("news"));
    await read();
  });
  await after;
}
const gone = (locator) => locator.waitFor({ state: "detached" });
/** Asks the host as another operator does. */
async function elsewhere(method, params = {}) {
  const answer = await fetch(`http://${address}/console/api`, {
    method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${operator}` },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: `clawhost.${method}`, params }),
  });
  return (await answer.json()).result;
}
/** Waits until what has the focus says so. */
const focused = (text) => page.waitForFunction((text) => document.activeElement !== document.body && document.activeElement.innerText.includes(text), text);

try {
  await page.goto(`http://${address}/console`);
  await looked("door");
  await page.getByLabel("Operator’s credential").fill(agent);
  await press("Enter");
  await page.getByText("That is an agent’s token").waitFor();
  await page.getByLabel("Operator’s credential").fill("wrong");
  await press("Enter");
  await page.getByText("does not know that credential").waitFor();
  step("an agent's token and a wrong credential open nothing");
  await page.getByLabel("Operator’s credential").fill(operator);
  methods.length = 0;
  await page.evaluate(() => { for (const _ of [1, 2]) document.querySelector("#login").requestSubmit(); });
  await page.getByRole("heading", { name: "Nothing waits for you." }).waitFor();
  await page.getByText("It holds:").waitFor({ state: "attached" });
  assert.equal(methods.filter((one) => one === "audit.verify").length, 1, "it opens once");
  assert.equal(await page.evaluate(() => document.activeElement.id), "lead");
  const kept = await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length, document.body.innerHTML]);
  assert.deepEqual(kept.slice(0, 3), ["", 0, 0]);
  assert(!kept[3].includes(operator) && !page.url().includes(operator));
  assert.equal((await context.cookies()).length, 0);
  step("the operator's credential opens it, and is kept nowhere but in memory");
  await looked("empty");

  await call("read_file", { path: "notes.md" });
  await call("read_file", { path: "gone.md" });
  await call("list_directory", { path: "." });
  await call("index__look_up", { q: "keys" });
  await page.locator("#calls .state.refused").waitFor();
  await page.locator("#calls .state.failed").waitFor();
  step("calls appear as they end");

  await news((told) => { told.records = told.records.filter((one) => one.event !== "call.finished"); });
  await page.locator("#calls .state.running").waitFor();
  await news((told) => { told.skipped = true; });
  await gone(page.locator("#calls .state.running"));
  step("where records were skipped no call stays under way");
  await news((told) => { told.seen.chain = "another"; });
  assert(methods.includes("tools.list"), `of another host all is asked anew: ${methods}`);
  step("another host is looked at from the start");

  const hostile = "a\u202etxt.exe <img src=x onerror='window.pwned=3'>";
  const first = call("write_file", { path: "friday.md", content: "# Friday\n\n- rotate the keys\n- tell the team\n" });
  await card("friday.md").waitFor();
  const long = Array.from({ length: 150 }, (_, n) => `- [ ] rotate key ${n + 1}`).join("\n");
  const second = call("write_file", { path: hostile, content: long });
  await card(`Only the start of ${long.length.toLocaleString("en")} bytes`).waitFor();
  await page.getByRole("heading", { name: "2 calls wait for you." }).waitFor();
  await page.locator("#calls .state.waiting").nth(1).waitFor();
  assert((await page.locator("#tally").innerText()).includes("None runs but those that wait."));
  await page.waitForFunction(() => document.querySelector("#said").textContent.includes("write-file"));
  assert.equal(await page.title(), "(2) clawhost");
  assert((await card("Only the start").innerText()).includes("a\\u{202e}txt.exe <img src=x"), "hidden characters are visible");
  await looked("waiting");
  assert.equal(await card("Only the start").getByRole("button", { name: "Approve" }).count(), 0);
  step("what waits is announced, and what is not shown whole cannot be approved");

  await page.locator("#lead").focus();
  await tabTo("Approve");
  await press("Enter");
  assert((await first).includes('"isError":false'));
  await gone(card("friday.md"));
  assert.equal(await page.evaluate(() => document.activeElement.id), "lead", "the next one is not under the keys");
  assert.equal(readFileSync(join(folder, "workspace/friday.md"), "utf8").split("\n")[0], "# Friday");
  step("a call is approved by keyboard, and ends");

  await altered("approvals.show", (told) => { told.pending = []; }, async () => {
    await tabTo("Show everything first");
    await press("Enter");
  });
  await page.getByText("That call waits no more").waitFor();
  for (const _ of [1, 2, 3, 4]) await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  await page.waitForFunction((whole) => [...document.querySelectorAll("#waiting pre")].some((one) => one.textContent === whole), long);
  await page.waitForFunction(() => document.activeElement.classList.contains("given"));
  await page.keyboard.down("Enter");
  await card("exe").getByRole("button", { name: "Approve" }).focus();
  await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  step("what is shown has the focus, and pressing on approves nothing");
  await tabTo("Say more");
  await press("Enter");
  for (const _ of [1, 2, 3]) await press("Tab");
  await page.keyboard.type("not that name");
  await press("Shift+Tab"); await press("Shift+Tab"); await press("Shift+Tab");
  await tabTo("Deny").catch(() => {});
  await card("exe").getByRole("button", { name: "Deny" }).focus();
  await press("Enter");
  assert((await second).includes("not that name"));
  await gone(card("exe"));
  step("another is denied, and its caller reads why");

  const evil = `${"echo harmless\n".repeat(100)}echo evil\n`;
  const script = call("index__runs", { script: evil, "x\u200b": 1 });
  await card("index-runs").waitFor();
  await card("index-runs").getByText("Only the start of long arguments").waitFor();
  assert.equal(await card("index-runs").getByRole("button", { name: "Approve" }).count(), 0);
  await card("index-runs").getByRole("button", { name: "Show everything first" }).press("Enter");
  await card("index-runs").getByText("echo evil").waitFor();
  assert.equal(await card("index-runs").getByText("Only the start").count(), 0);
  await card("index-runs").getByRole("button", { name: "Deny" }).press("Enter");
  await script;
  await gone(card("index-runs"));
  step("a name with a hidden character keeps nothing from being shown whole first");

  const exact = call("index__runs", { id: "exactly 9007199254740993", ids: ["exactly 18446744073709551615"], ["__proto__"]: "x", constructor: "x" });
  await card("index-runs").waitFor();
  const given = await card("index-runs").locator(".given").innerText();
  for (const digits of ["9007199254740993", "18446744073709551615"]) assert(given.includes(digits) && !given.includes(`"${digits}`), given);
  assert(!given.includes("Only the start") && !given.includes("\0"), given);
  await card("index-runs").getByRole("button", { name: "Deny" }).press("Enter");
  await exact;
  await gone(card("index-runs"));
  step("a number is shown in its own digits, and no name makes an argument seem cut");

  const above = call("write_file", { path: "above.md", content: "1" });
  await card("above.md").waitFor();
  const below = call("write_file", { path: "below.md", content: "1" });
  await card("below.md").waitFor();
  await card("below.md").getByText("Say more").click();
  await card("below.md").getByLabel("When denied").focus();
  await page.keyboard.type("not ");
  const [oldest] = (await elsewhere("approvals.list")).pending;
  await elsewhere("approvals.deny", { id: oldest.id });
  await above;
  await gone(card("above.md"));
  await page.keyboard.type("now");
  await card("below.md").getByRole("button", { name: "Deny" }).press("Enter");
  assert((await below).includes("not now"));
  await gone(card("below.md"));
  step("whoever types goes on when another call is answered elsewhere");

  const third = call("write_file", { path: "a.md", content: "1" });
  await card("a.md").waitFor();
  await card("a.md").getByText("Say more").click();
  await card("a.md").getByLabel("Later calls").selectOption("600000");
  await card("a.md").getByLabel("if they have").selectOption("any");
  // By keyboard: a click on what has just moved does not count.
  await card("a.md").getByRole("button", { name: "Approve" }).press("Enter");
  await third;
  await call("write_file", { path: "b.md", content: "2" });
  await page.getByText("Standing approvals").click();
  await page.getByRole("button", { name: /^Revoke/ }).press("Enter");
  await gone(page.locator("#leases li"));
  await focused("Nothing waits for you.");
  step("a lease covers the next call, and is revoked");

  for (let n = 0; n < 3; n++) await call("index__fails", {});
  await page.locator("#attention .card", { hasText: "fails" }).waitFor();
  look = `Looks a word up. ${HOSTILE}`;
  host.kill("SIGHUP");
  await page.locator("#attention .card", { hasText: "look" }).waitFor().catch(() => {});
  await looked("attention");
  await page.getByRole("button", { name: /^Release/ }).click();
  await gone(page.locator("#attention .card", { hasText: "rests" }));
  step("a tool that rests is released");
  await page.getByRole("button", { name: /^Accept/ }).click();
  await gone(page.locator("#attention .card"));
  step("what a server changed is shown, and accepted");

  await page.getByRole("link", { name: "Tools" }).click();
  const look_up = page.locator("#tools .card", { hasText: "look_up" });
  await look_up.getByText("More").click();
  const described = await look_up.locator(".words").innerText();
  assert(described.includes("<img src=x onerror") && !described.includes("\u202e"), described);
  assert.equal(await page.locator("#house :is(img, script, b b, i)").count(), 0);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  step("a hostile description is text, and makes no element");
  await look_up.getByLabel("Why, for its callers").fill("until the review");
  await look_up.getByRole("button", { name: /^Disable/ }).press("Enter");
  await page.locator("#tools .state.disabled").waitFor();
  await focused("index__look_up");
  assert((await call("index__look_up", { q: "x" })).includes("until the review"));
  await looked("tools");
  await page.getByRole("button", { name: "Enable index__look_up" }).click();
  await gone(page.locator("#tools .state.disabled"));
  step("a tool is disabled, and enabled");

  manifest("other");
  host.kill("SIGHUP");
  await page.locator("#tools .card", { hasText: "read_file" }).getByText(join(folder, "other")).waitFor();
  step("what a tool may touch is told anew after a reload");

  await page.getByRole("link", { name: "Record" }).click();
  await page.locator("#found li").first().waitFor();
  await page.getByLabel("Ended").selectOption("refused");
  await page.getByLabel("Tool", { exact: true }).fill("list_directory");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#found li").length === 1);
  await page.locator("#found summary").click();
  await looked("record");
  step("the record is searched");

  await page.getByRole("link", { name: "Health" }).click();
  await page.getByText("It holds:").waitFor();
  await page.locator("#servers .state.allowed").waitFor();
  await looked("health");
  step("the log holds");

  await page.evaluate(() => {
    window.timeout = AbortSignal.timeout;
    AbortSignal.timeout = (ms) => window.timeout.call(AbortSignal, ms / 100);
  });
  const never = (route) => asks("news")(route.request()) ? undefined : route.fallback();
  await page.route("**/console/api", never);
  await call("read_file", { path: "notes.md" });
  await page.getByText("The host does not answer.").waitFor();
  await page.evaluate(() => { AbortSignal.timeout = window.timeout; });
  await page.getByRole("button", { name: "Lock" }).click();
  await page.unroute("**/console/api", never);
  await page.getByLabel("Operator’s credential").fill(operator);
  await press("Enter");
  await page.getByText("It holds:").waitFor();
  assert.equal(await page.locator("#link").innerText(), "");
  step("a host that stands still is told, and no more once the page is opened anew");

  await page.evaluate(() => { const now = Date.now; Date.now = () => now() + 31 * 60_000; });
  await page.getByText("Locked after half an hour untouched.").waitFor();
  await page.getByLabel("Operator’s credential").fill(operator);
  await press("Enter");
  step("time that the machine slept counts");

  await page.getByRole("link", { name: "Record" }).click();
  await page.getByLabel("Tool", { exact: true }).fill("list_directory");
  await page.getByRole("button", { name: "Lock" }).click();
  await page.getByLabel("Operator’s credential").waitFor();
  assert.equal(await page.locator("#house li").count(), 0);
  const left = await page.locator("#house").evaluate((house) => `${house.textContent} ${[...house.querySelectorAll("input[name=tool], #tools-find")].map((one) => one.value).join(" ")}`);
  for (const word of ["It holds", "Of the last", "list_directory"]) assert(!left.includes(word), left);
  assert.deepEqual(wrongs, []);
  step("it locks, and leaves nothing behind");
} catch (error) {
  if (images) await page.screenshot({ path: join(images, "failed.png") }).catch(() => {});
  console.error(error, wrongs, complaints);
  process.exitCode = 1;
} finally {
  await browser.close();
  stop();
}
