// The admin page: reads the events of its own process and shows them. Text goes in as text, never as markup.

import { draw } from "./charts.js";

const TOKEN = "sealway-admin-token";
const SPAN = 180;
const LINES_MAX = 2000;
const CONNECTIONS_MAX = 200;
/** Most rows of the inventory on the page. */
const INVENTORY_MAX = 200;

const by = (id) => document.getElementById(id);
const state = { token: null, samples: [], lines: [], nextLine: null, paused: false, stream: null, status: null, tries: 0 };

// --- words ---

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function duration(us) {
  if (us === null || us === undefined) return "–";
  if (us < 1000) return `${whole.format(us)} µs`;
  if (us < 1e6) return `${us < 1e4 ? exact.format(us / 1e3) : whole.format(us / 1e3)} ms`;
  return `${exact.format(us / 1e6)} s`;
}

function bytes(count) {
  if (count === null) return "–";
  return count < 1 << 30 ? `${whole.format(count / (1 << 20))} MiB` : `${exact.format(count / (1 << 30))} GiB`;
}

function span(seconds) {
  const [days, hours, minutes] = [seconds / 86400, (seconds / 3600) % 24, (seconds / 60) % 60].map(Math.floor);
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

// --- putting things on the page ---

function put(id, text, className) {
  const element = by(id);
  if (element.textContent !== text) element.textContent = text;
  if (className !== undefined) element.className = className;
}

function make(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function button(text, label, act) {
  const element = make("button", text);
  element.type = "button";
  element.setAttribute("aria-label", label);
  element.addEventListener("click", act);
  return element;
}

/**
 * Fills a table; rows are lists of cells: text, `[text, class]`, or an element. The same content is left as it is.
 * A narrow page lays each row out as a block. Roles keep it a table for assistive technology, and each cell names its column.
 */
function fill(id, rows, none) {
  const body = by(id);
  const key = JSON.stringify(rows, (_, value) => (value instanceof Element ? value.getAttribute("aria-label") : value));
  if (body.dataset.key === key) return;
  body.dataset.key = key;
  const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  const titles = [...body.parentElement.querySelectorAll("th")].map((title) => title.textContent);
  const row = (cells) => {
    const line = make("tr");
    line.role = "row";
    for (const cell of cells) cell.role = "cell";
    line.append(...cells);
    return line;
  };
  const lines = rows.map((cells) => row(cells.map((cell, index) => {
    const column = cell instanceof Element ? make("td") : make("td", ...(Array.isArray(cell) ? cell : [cell]));
    if (cell instanceof Element) column.append(cell);
    else column.dataset.title = titles[index];
    return column;
  })));
  if (rows.length === 0) {
    const cell = make("td", none, "quiet");
    cell.colSpan = titles.length;
    lines.push(row([cell]));
  }
  body.replaceChildren(...lines);
  // A replaced row keeps the focus.
  if (focused) [...body.querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
}

/** `2026-11-23 01:41`, in UTC. */
const minute = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");

/** Returns the match of a route as text. */
function matched(match) {
  if (match === null) return "unmatched requests";
  const parts = Object.entries(match).filter(([, values]) => values.length > 0);
  return parts.map(([name, values]) => `${name} ${values.join(", ")}`).join("; ") || "all requests";
}

const number = (value) => [value === undefined ? "–" : whole.format(value), "number"];

function show(status) {
  state.status = status;
  const { health, requests, process, sessions } = status;
  put("version", `${status.version}, up ${span(status.uptime_s)}`);
  put("health", health.is_ready ? "ready" : "not ready", `figure ${health.is_ready ? "good" : "bad"}`);
  put("health-why", health.why ?? "accepts sessions and sealed requests");
  put("rate", requests.per_second < 10 ? exact.format(requests.per_second) : whole.format(requests.per_second));
  const classes = Object.entries(requests.by_class).filter(([name, count]) => count > 0 || name === "2xx");
  put("classes", classes.map(([name, count]) => `${name} ${whole.format(count)}`).join(", "));
  const latency = requests.latency_us;
  put("p50", duration(latency?.p50));
  put("p90", latency ? `p90 ${duration(latency.p90)}` : `no requests in ${requests.window_s} s`);
  put("p99", duration(latency?.p99));
  put("slowest", latency ? `max ${duration(latency.max)}` : `no requests in ${requests.window_s} s`);
  put("cpu", exact.format(process.cpu_percent));
  put("cores", `of one core; ${process.cores} cores`);
  put("memory", bytes(process.resident_bytes));
  const limit = process.descriptors_max === null ? "" : ` of ${whole.format(process.descriptors_max)}`;
  put("descriptors", process.descriptors === null ? "" : `${whole.format(process.descriptors)}${limit} descriptors`);
  const sum = (name) => status.listeners.reduce((sum, one) => sum + (one[name] ?? 0), 0);
  put("open", whole.format(sum("connections")));
  put("accepted", `${whole.format(sum("accepted"))} accepted, ${whole.format(sum("refused"))} rejected`);
  put("sessions", whole.format(sessions.count));
  put("replays", `${whole.format(sessions.replays_refused)} replays rejected`);
  put("store", `Store: ${sessions.store}, ${sessions.is_up ? "up" : "down"}. ${whole.format(sessions.nonces)} nonces stored.`);
  const used = sessions.wires.filter((one) => one.inits + one.calls > 0 || !one.is_served);
  const last = (one) => new Date(Math.max(one.last_init_ms ?? 0, one.last_call_ms ?? 0)).toLocaleString();
  const told = (one) => (one.inits + one.calls > 0 ? `${whole.format(one.inits)} inits, ${whole.format(one.calls)} calls, last ${last(one)}` : "unused");
  put("wires", used.map((one) => `Wire ${one.wire}: ${told(one)}${one.is_served ? "" : ", switched off"}.`).join(" "));
  by("rotate").hidden = !status.certificates_folder;
  tables(status);
}

function tables(status) {
  fill("listeners", status.listeners.map((one) => [
    [one.name, "tight"], [one.addresses.join(", "), "tight"], [{ none: "yes", optional: "client certificate optional", required: "client certificate required" }[one.tls] ?? "no", "tight"], number(one.connections), number(one.accepted),
    number(one.refused), one.is_serving ? ["serving", "good"] : ["stopped", "bad"],
    one.is_serving
      ? button("Stop", `Stop the listener ${one.name}`, () => stopListener(one.name))
      : button("Start", `Start the listener ${one.name}`, () => startListener(one.name)),
  ]), "No listeners.");
  fill("upstreams", status.upstreams.flatMap((one) => (one.servers.length === 0
    ? [[one.name, "built in", ["up", "good"], "", "", "", "", ""]]
    : one.servers.map((server) => [
      [one.name, "tight"], [server.address, "tight"], server.up ? ["up", "good"] : ["down", "bad"], number(server.in_flight),
      number(server.idle), number(server.connects), number(server.failures), [server.last_error ?? "", "wide"],
    ]))), "No upstreams.");
  by("services-card").hidden = status.services.length === 0;
  fill("services", status.services.map((one) => {
    const { kind = "", ...figures } = one.figures ?? {};
    const state = one.error === null ? ["up", "good"] : ["down", "bad"];
    const place = [[one.upstream, "tight"], [one.address, "tight"], kind, state];
    if (kind === "relay") {
      const room = figures.waiting_bytes_max > 0 ? figures.waiting_bytes / figures.waiting_bytes_max : 0;
      const now = `${whole.format(figures.channels)} channels, ${whole.format(figures.connections)} connections, ${bytes(figures.forwarded_bytes)} forwarded, ${whole.format(100 * room)} % of the room for waiting bytes`;
      return [...place, number(figures.attached), [whole.format(figures.rejected), `number${figures.rejected > 0 ? " warn" : ""}`], [now, "wide"]];
    }
    if (kind === "broker") {
      const lost = figures.audit_failures;
      const now = `${bytes(figures.resident_bytes)} of memory, ${whole.format(figures.audit_lines)} lines of the audit log, ${whole.format(lost)} not written`;
      return [...place, number(figures.calls), [whole.format(figures.errors), `number${figures.errors > 0 ? " warn" : ""}`], [now, lost > 0 ? "wide bad" : "wide"]];
    }
    return [...place, "", "", [one.error ?? "", "wide"]];
  }), "None.");
  fill("certificates", status.certificates.map((one) => {
    const days = one.days_left;
    const colour = days === null ? "" : days < 7 ? " bad" : days < 30 ? " warn" : " good";
    const ends = one.not_after_ms > 0 ? new Date(one.not_after_ms).toISOString().slice(0, 10) : "";
    const subject = one.revoked === null ? one.subject : `${one.subject} (${one.revoked} revoked)`;
    return [[one.used_by, "tight"], [one.role, "tight"], [subject, "wide"], [ends, "tight"],
      [days === null ? "" : whole.format(days), `number${colour}`], [one.file, "wide"]];
  }), "No certificates are in use.");
  fill("routes", status.routes.map((one) => {
    const count = Object.values(one.requests).reduce((sum, count) => sum + count, 0);
    const errors = (one.requests["4xx"] ?? 0) + (one.requests["5xx"] ?? 0);
    return [[one.name, "tight"], [matched(one.match), "wide"], one.action, one.sealed ?? "", one.upstream ?? "",
      number(count), [whole.format(errors), `number${errors > 0 ? " warn" : ""}`]];
  }), "No routes.");
  fill("identity-keys", status.identity_keys.map((one) => {
    const days = Math.floor((one.not_after_ms - status.now_ms) / 86400000);
    const colour = days < 7 ? " bad" : days < 30 ? " warn" : " good";
    const state = one.state === "active" && !one.signs_by_default ? "active, for clients that pin it" : one.state;
    return [[one.id, "code"], [minute(one.not_before_ms), "tight"], [minute(one.not_after_ms), "tight"],
      [whole.format(Math.max(0, days)), `number${colour}`], [state, { active: "good", expired: "bad" }[one.state] ?? ""]];
  }), "None: the native protocol is off.");
  for (const card of ["one-shot-card", "one-shot-opens-card"]) by(card).hidden = status.one_shot_keys.length === 0;
  fill("one-shot-keys", status.one_shot_keys.map((one) => {
    const days = Math.floor((one.published_until_ms - status.now_ms) / 86400000);
    const colour = days < 1 ? " bad" : days < 7 ? " warn" : " good";
    return [one.use, one.kem, [one.name, "code"], [minute(one.published_until_ms), "tight"], [minute(one.accepted_until_ms), "tight"],
      number(one.requests), [whole.format(Math.max(0, days)), `number${colour}`], [one.condition, { preferred: "good", over: "bad" }[one.condition] ?? ""]];
  }), "None.");
  fill("one-shot-opens", status.one_shot_opens.map((one) => [
    one.mode, one.kem, number(one.ok), [whole.format(one.rejected), `number${one.rejected > 0 ? " warn" : ""}`],
  ]), "None since the start.");
  fill("refusals", status.refusals.map((one) => [
    one.listener === undefined ? one.on : `${one.on}, listener ${one.listener}`, [one.class, "code"], number(one.count),
  ]), "None since the start.");
  const which = by("which");
  const names = status.listeners.map((one) => one.name);
  if (JSON.stringify(names) !== which.dataset.key) {
    which.dataset.key = JSON.stringify(names);
    const chosen = which.value;
    which.replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(chosen)) which.value = chosen;
  }
}

function charts() {
  const values = (pick) => state.samples.slice(-SPAN).map(pick);
  const rate = { colour: "--accent", values: values((one) => one.requests_per_second) };
  draw(by("chart-rate"), [rate], (value) => (value < 10 ? exact : whole).format(value), SPAN);
  const latency = (name) => values((one) => one.latency_us?.[name] ?? null);
  const lines = [{ colour: "--second", values: latency("p99") }, { colour: "--accent", values: latency("p50") }];
  draw(by("chart-latency"), lines, duration, SPAN);
}

// --- the log ---

const gravity = (line) => (/\bERROR\b/.test(line) ? "bad" : /\bWARN\b/.test(line) ? "warn" : "");

function log({ next, skipped, lines }) {
  if (skipped > 0) lines.unshift(`… ${skipped} lines are gone`);
  state.nextLine = next;
  state.lines.push(...lines);
  const over = state.lines.length - LINES_MAX;
  if (over > 0) state.lines.splice(0, over);
  if (state.paused) put("log-note", "paused");
  else lay(lines);
}

function lay(added) {
  const [view, words] = [by("log"), by("filter").value.toLowerCase()];
  const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 30;
  const fits = (line) => words === "" || line.toLowerCase().includes(words);
  const elements = (added ?? state.lines).filter(fits).map((line) => make("div", line, gravity(line)));
  if (added) view.append(...elements);
  else view.replaceChildren(...elements);
  while (view.childElementCount > LINES_MAX) view.firstElementChild.remove();
  if (atEnd || !added) view.scrollTop = view.scrollHeight;
  put("log-note", `${whole.format(view.childElementCount)} lines`);
}

// --- talking to the process ---

const headers = () => ({ Authorization: `Bearer ${state.token}` });

async function ask(method, path) {
  const answer = await fetch(path, { method, headers: headers(), cache: "no-store", redirect: "error" });
  if (answer.status === 401) leave("Wrong token for this process.");
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.message ?? said.error ?? `${answer.status}`);
  return said;
}

function linked(text, className) {
  put("link", text, `pill ${className}`);
  document.body.classList.toggle("lost", className !== "good");
}

async function watch() {
  const stream = new AbortController();
  state.stream = stream;
  while (!stream.signal.aborted) {
    try {
      await follow(stream);
    } catch (error) {
      if (stream.signal.aborted) return;
      console.debug("the event stream was interrupted", error);
    }
    if (stream.signal.aborted) return;
    const wait = Math.min(10, 2 ** state.tries++ / 2);
    linked(`disconnected, retrying in ${exact.format(wait)} s`, "bad");
    await new Promise((done) => setTimeout(done, wait * 1000));
  }
}

async function follow(stream) {
  const from = state.nextLine === null ? "" : `?from=${state.nextLine}`;
  const answer = await fetch(`/admin/events${from}`, { headers: headers(), cache: "no-store", signal: stream.signal });
  if (answer.status === 401) return leave("Wrong token for this process.");
  if (!answer.ok) throw new Error(`${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  // The server sends an event each second, so a silent stream is broken.
  let timer;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => reader.cancel().catch(() => {}), 5000);
  };
  let text = "";
  try {
    for (;;) {
      alive();
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      events.forEach(take);
    }
  } finally {
    clearTimeout(timer);
  }
}

function take(event) {
  const [, name, data] = event.match(/^event: (\w+)\ndata: (.*)$/s) ?? [];
  if (!name) return;
  const value = JSON.parse(data);
  if (name === "history") {
    state.samples = value;
  } else if (name === "log") {
    log(value);
  } else if (name === "status") {
    state.tries = 0;
    linked("connected", "good");
    const sample = { at_ms: value.now_ms, requests_per_second: value.requests.per_second, latency_us: value.requests.latency_us };
    state.samples.push(sample);
    state.samples.splice(0, Math.max(0, state.samples.length - SPAN));
    show(value);
    charts();
    connections();
    inventory();
  }
}

let asking = false;
/** Shows what was used, the latest first; every ten seconds, and at most INVENTORY_MAX rows. */
let beats = 0;
async function inventory() {
  if (document.hidden || beats++ % 10 !== 0) return;
  try {
    const { rows, overflow } = await ask("GET", "/admin/inventory");
    rows.sort((one, other) => other.last_ms - one.last_ms);
    fill("inventory", rows.slice(0, INVENTORY_MAX).map((one) => [
      one.operation, [one.algorithm, "code"], one.size === 0 ? "" : number(one.size), one.party, one.protocol, [one.key, "code"], number(one.count),
      [minute(one.last_ms), "tight"],
    ]), "Nothing was used.");
    const shown = rows.length > INVENTORY_MAX ? `The latest ${INVENTORY_MAX} of ${whole.format(rows.length)}. ` : "";
    put("inventory-note", shown + (overflow.count > 0 ? `${whole.format(overflow.count)} operations had no room for a row: incomplete.` : ""));
  } catch (error) {
    put("inventory-note", error.message);
  }
}

async function connections() {
  const name = by("which").value;
  if (asking || name === "" || document.hidden) return;
  asking = true;
  try {
    const all = await ask("GET", `/admin/connections?listener=${encodeURIComponent(name)}&max=${CONNECTIONS_MAX}`);
    const rows = all.map((one) => [
      whole.format(one.id), [one.peer, "tight"], one.protocol, number(one.requests), [span(one.open_for_s), "number"],
      [one.subject ?? "", "wide"], button("Close", `Close connection ${one.id}`, () => closeConnection(name, one)),
    ]);
    fill("connections", rows, "No open connections.");
    put("connections-note", all.length < CONNECTIONS_MAX ? "" : `the oldest ${CONNECTIONS_MAX}`);
  } catch (error) {
    put("connections-note", error.message);
  } finally {
    asking = false;
  }
}

// --- actions ---

function told(text, className) {
  put("result", text, className);
  by("result").hidden = false;
}

async function confirmed(title, text, yes) {
  const dialog = by("question");
  put("question-title", title);
  put("question-text", text);
  put("question-yes", yes);
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  return dialog.returnValue === "yes";
}

async function act(title, text, yes, method, path, words) {
  if (!(await confirmed(title, text, yes))) return;
  try {
    told(words(await ask(method, path)), "good");
  } catch (error) {
    told(`${title} ${error.message}`, "bad");
  }
}

const part = encodeURIComponent;

const stopListener = (name) => act(`Stop ${name}?`, "The listener stops accepting connections and closes its own after the requests in flight. Other listeners continue.",
  "Stop", "POST", `/admin/listeners/${part(name)}/stop`, () => `${name} is stopped.`);
const startListener = (name) => act(`Start ${name}?`, "The listener binds its address again and accepts connections.", "Start", "POST",
  `/admin/listeners/${part(name)}/start`, () => `${name} serves again.`);
const closeConnection = (name, one) => act(`Close connection ${one.id}?`, `From ${one.peer}. It ends after what is in flight.`, "Close",
  "DELETE", `/admin/connections/${one.id}?listener=${part(name)}`, () => `Connection ${one.id} is told to close.`);

function reloaded(done) {
  const parts = ["added", "removed", "changed"].filter((name) => done[name].length > 0);
  const listeners = parts.map((name) => `${name} ${done[name].join(", ")}`).join("; ") || "unchanged";
  const restart = done.needs_restart.length > 0 ? ` Needs a restart: ${done.needs_restart.join(", ")}.` : "";
  return `Reloaded. Listeners: ${listeners}.${restart}`;
}

by("reload").addEventListener("click", () => act("Reload the configuration?", "The configuration is checked first. It applies completely or not at all.",
  "Reload", "POST", "/admin/reload", reloaded));
by("drain").addEventListener("click", () => act("Drain and stop this process?", "The process stops accepting connections, answers the requests in flight and exits, as on SIGTERM. This page stops with it.",
  "Drain and stop", "POST", "/admin/drain", () => "The process drains and exits."));
by("rotate").addEventListener("click", () => act("Renew the server's certificate?", "The authority issues a new key and certificate. Open connections continue.",
  "Renew", "POST", "/admin/certificates/rotate", (done) => `Renewed: ${done.renewed.map((one) => one.subject).join(", ")}.`));
by("revoke").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = by("session").value.trim();
  act("Revoke this session?", id, "Revoke", "DELETE", `/admin/sessions/${part(id)}`, () => `Session ${id} is revoked.`);
});

by("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  by("pause").setAttribute("aria-pressed", `${state.paused}`);
  put("pause", state.paused ? "Resume" : "Pause");
  if (!state.paused) lay();
});
by("filter").addEventListener("input", () => lay());
by("download").addEventListener("click", async () => {
  try {
    const answer = await fetch("/admin/logs?download=1", { headers: headers(), cache: "no-store" });
    if (!answer.ok) throw new Error(`the answer is ${answer.status}`);
    const link = make("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = "sealway.log";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  } catch (error) {
    told(`The log cannot be downloaded: ${error.message}`, "bad");
  }
});

// --- in and out ---

function leave(why) {
  state.stream?.abort();
  sessionStorage.removeItem(TOKEN);
  Object.assign(state, { token: null, samples: [], lines: [], nextLine: null });
  by("log").replaceChildren();
  for (const id of ["house", "actions"]) by(id).hidden = true;
  by("door").hidden = false;
  put("refusal", why);
  linked("no token", "quiet");
  by("token").focus();
}

function enter(token) {
  state.token = token;
  sessionStorage.setItem(TOKEN, token);
  by("door").hidden = true;
  for (const id of ["house", "actions"]) by(id).hidden = false;
  put("refusal", "");
  linked("connecting", "warn");
  watch();
}

by("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = by("token").value.trim();
  by("token").value = "";
  if (token !== "") enter(token);
});
by("leave").addEventListener("click", () => leave(""));
window.addEventListener("resize", charts);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", charts);

for (const part of document.querySelectorAll("table, thead, tbody, thead tr, th")) {
  part.role = { TABLE: "table", TR: "row", TH: "columnheader" }[part.tagName] ?? "rowgroup";
}

const kept = sessionStorage.getItem(TOKEN);
if (kept) enter(kept);
else by("token").focus();
