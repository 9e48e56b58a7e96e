// Listen: a filter that is read while it is typed, who advertises what it asks for, and the notifications that match.

import { h, put, ask, count, debounced, values } from "./dom.js";
import { store, remember, address } from "./store.js";
import { connect } from "./octopia.js";

const KEPT = 300;

export const socketUrl = () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;

// An input for a filter with the product's own message and caret below it.
export function filterInput(value, { onValid = () => {}, label = "Filter", overlaps = true, id = "filter" }) {
  const input = h("textarea", { class: "code", rows: 2, spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-label": label, id, value, placeholder: "symbol = 'AAPL' and price > 100" });
  const said = h("div", { class: "said", role: "status", "aria-live": "polite" });
  let asked = 0;
  const look = async () => {
    const mine = ++asked, text = input.value;
    if (!text.trim()) {
      put(said);
      onValid(null);
      return;
    }
    let answer;
    try {
      answer = await ask("/api/parse", { filter: text, overlaps });
    } catch (error) {
      answer = { ok: false, message: error.message };
    }
    if (mine !== asked) return;
    input.classList.toggle("wrong", !answer.ok);
    input.setAttribute("aria-invalid", String(!answer.ok));
    put(said, answer.ok ? (answer.overlaps ? overlapping(answer.overlaps) : []) : problem(answer));
    onValid(answer.ok ? text : null);
  };
  input.addEventListener("input", debounced(look, 180));
  // Not before the caller has what is returned here.
  queueMicrotask(look);
  return { element: h("div", { class: "filter-input" }, input, said), input, look };
}

export function problem(answer) {
  return [h("div", { class: "problem" }, answer.message), answer.pointer && h("pre", { class: "pointer" }, answer.pointer)];
}

function overlapping(found) {
  const of = `of ${count(found.of)}${found.complete ? "" : " that were looked at"}`;
  if (!found.count) return h("div", { class: "none-overlap" }, h("b", null, `No advertisement overlaps this (${of}).`), " ", found.why_none);
  return h("details", { class: "overlaps" }, h("summary", null, h("b", null, `${count(found.count)} advertisement${found.count === 1 ? "" : "s"} overlap${found.count === 1 ? "s" : ""} this`), ` ${of}`), h("ul", null, found.first.map((each) => h("li", null, h("a", { href: address("broker", each.broker, { table: "advertisements", q: each.client }) }, `${each.client} at ${each.broker}`), " ", h("code", { class: "filter" }, each.filter)))));
}

// The credentials of the visitor, kept for this visit only.
export const identity = { name: "", token: "" };

export function identityForm() {
  const name = h("input", { type: "text", placeholder: "client name", "aria-label": "Client name", value: identity.name, autocomplete: "off", oninput: () => (identity.name = name.value) });
  const token = h("input", { type: "password", placeholder: "token", "aria-label": "Client token", value: identity.token, autocomplete: "off", oninput: () => (identity.token = token.value) });
  return h("details", { class: "identity" }, h("summary", null, "Connect as a client of your own"), h("p", { class: "faint" }, "Without a token the console's own credentials are used. The brokers check the rights of whichever client this is."), name, token);
}

export function listenView(root, given) {
  let closed = false, client = null, subscription = null, valid = null, paused = false, shown = 0, skipped = 0, dropped = 0;
  const list = h("ol", { class: "notes", "aria-label": "Notifications" }), totals = h("span", { class: "faint" }), said = h("div", { class: "problem", role: "alert", hidden: true });
  const start = h("button", { type: "button", class: "primary", onclick: () => (subscription ? stop() : begin()) }, "Listen");
  const pause = h("button", { type: "button", disabled: true, onclick: () => togglePause() }, "Pause");
  const cap = h("select", { "aria-label": "Rate cap", onchange: () => (remember({ cap: cap.value }), setRate()) }, [5, 20, 50, 200, 1000].map((rate) => h("option", { value: String(rate) }, `at most ${rate}/s`)));
  cap.value = ["5", "20", "50", "200", "1000"].includes(given.cap) ? given.cap : "20";
  const fail = (error) => {
    said.hidden = !error;
    put(said, error ? problem(error) : []);
  };
  const editor = filterInput(given.filter ?? "", {
    onValid: (text) => {
      valid = text;
      start.disabled = !text && !subscription;
      remember({ filter: editor.input.value });
    },
  });
  const tally = () => (totals.textContent = `${count(shown)} shown, ${count(skipped)} skipped${dropped ? `, ${count(dropped)} dropped at the broker` : ""}`);
  const take = (items, left) => {
    skipped += left;
    shown += items.length;
    for (const item of items) list.prepend(row(item));
    while (list.children.length > KEPT) list.lastChild.remove();
    tally();
  };
  const begin = async () => {
    fail(null);
    start.disabled = true;
    try {
      client ??= await connect(socketUrl(), { ...identity, onStatus: (frame) => { if (frame.dropped !== undefined) { dropped = frame.dropped; tally(); } if (frame.type === "error") fail(frame); }, onClose: (error) => { client = subscription = null; buttons(); if (!closed) fail(error); } });
      const before = subscription;
      if (closed) return client.close();
      // What stands there now, even if it was not read yet.
      subscription = await client.subscribe(editor.input.value, take, { rateMax: Number(cap.value), policy: "drop_oldest" });
      await before?.close();
      remember({ on: "1" });
    } catch (error) {
      fail(error);
    }
    buttons();
  };
  const stop = async () => {
    const before = subscription;
    subscription = null;
    paused = false;
    buttons();
    remember({ on: "" });
    await before?.close().catch(() => {});
  };
  const setRate = () => subscription?.setRate(paused ? 0 : Number(cap.value));
  const togglePause = () => {
    paused = !paused;
    setRate();
    buttons();
  };
  const buttons = () => {
    start.disabled = !subscription && !valid;
    start.textContent = subscription ? "Stop" : "Listen";
    pause.disabled = !subscription;
    pause.textContent = paused ? "Resume" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    root.querySelector(".listening")?.classList.toggle("on", Boolean(subscription) && !paused);
  };
  put(root, h("section", { class: "panel" },
    h("header", { class: "panel-head" }, h("h2", null, "Listen"), h("span", { class: "listening", "aria-hidden": "true" }), h("span", { class: "spring" }), totals),
    h("p", { class: "lead" }, "Type a condition on content. It is read as you type, by the same parser that brokers use."),
    editor.element,
    h("div", { class: "row" }, start, pause, cap, h("button", { type: "button", onclick: () => { put(list); shown = skipped = 0; tally(); } }, "Clear")),
    identityForm(), said, list));
  tally();
  buttons();
  editor.input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin();
  });
  if (given.on === "1" && given.filter) begin();
  return { close: () => { closed = true; client?.close(); } };
}

function row(item) {
  const text = JSON.stringify(item.notification);
  return h("li", null, h("time", null, new Date().toLocaleTimeString("en-GB")), h("span", { class: "from", title: `number ${item.id} of ${item.publisher}` }, item.publisher), values(item.notification), h("span", { class: "acts" }, h("a", { href: address("publish", "", { n: text }) }, "probe"), h("a", { href: address("why", "", { n: text, publisher: item.publisher }) }, "why")));
}
