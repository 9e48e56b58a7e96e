// Trouble: slow subscribers, full queues, refusals, flapping links, and the event log, over a range of time.

import { h, put, ask, count, clock, debounced, duration, query } from "./dom.js";
import { on, remember, address } from "./store.js";

const RANGES = { 60: "1 minute", 300: "5 minutes", 900: "15 minutes", 3600: "1 hour" };

function rangeSelect(value, change) {
  const select = h("select", { "aria-label": "Time range", onchange: () => change(select.value) }, Object.entries(RANGES).map(([seconds, name]) => h("option", { value: seconds }, `last ${name}`)));
  select.value = value in RANGES ? value : "900";
  return select;
}

const link = (broker) => h("a", { href: address("broker", broker) }, broker);

function list(title, rows, columns, none) {
  return h("article", { class: "card" }, h("h3", null, title), rows.length ? h("div", { class: "table-scroll" }, h("table", null, h("thead", null, h("tr", null, columns.map(([name]) => h("th", null, name)))), h("tbody", null, rows.map((row) => h("tr", null, columns.map(([, show]) => h("td", null, show(row)))))))) : h("p", { class: "fine" }, none));
}

export function troubleView(root, given) {
  let seconds = given.range in RANGES ? given.range : "900";
  const box = h("div", { class: "cards" }), log = eventLog(given, () => seconds);
  const load = async () => {
    try {
      const found = await ask(`/api/trouble?seconds=${seconds}`);
      put(box,
        list("Slowest subscribers", found.slowest, [["client", (r) => h("a", { href: address("broker", r.broker, { table: "clients", q: r.client }) }, r.client)], ["at", (r) => link(r.broker)], ["queue", (r) => count(r.queue)], ["waits", (r) => (r.wait_s ? duration(r.wait_s) : "–")], ["dropped", (r) => count(r.dropped)], ["policy", (r) => r.policy || "–"]], "No subscriber waits."),
        list("Fullest queues", found.queues, [["link", (r) => [link(r.broker), " → ", link(r.neighbour)]], ["Q_l", (r) => count(r.queue)], ["of τ", (r) => (r.up ? `${count(Math.round(r.load * 100))} %` : "–")], ["", (r) => (!r.up ? h("span", { class: "status is-down" }, "down") : r.overloaded ? h("span", { class: "status is-overloaded" }, "overloaded") : "")]], "All queues of links are empty."),
        list("Refused", found.refused, [["what", (r) => r.what], ["client", (r) => r.client || "–"], ["at", (r) => link(r.broker)], ["times", (r) => count(r.count)], ["reason", (r) => r.reason]], "Nothing was refused."),
        list("Links that flap", found.flapping, [["link", (r) => [link(r.broker), " – ", link(r.neighbour)]], ["changes", (r) => count(r.changes)]], "No link came and went."),
        found.brokers_down.length > 0 && list("Brokers that are not well", found.brokers_down, [["broker", (r) => link(r.broker)], ["status", (r) => h("span", { class: `status is-${r.status}` }, r.status)], ["reason", (r) => r.reason]], ""));
    } catch (error) {
      put(box, h("div", { class: "problem" }, error.message));
    }
  };
  const range = rangeSelect(seconds, (value) => {
    seconds = value;
    remember({ range: value });
    load();
    log.load();
  });
  put(root, h("section", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", null, "Trouble"), h("span", { class: "spring" }), range), box, log.element));
  load();
  const timer = setInterval(() => document.visibilityState === "visible" && (load(), log.load()), 3000);
  return { close: () => clearInterval(timer) };
}

export function eventsView(root, given) {
  let seconds = given.range in RANGES ? given.range : "3600";
  const log = eventLog(given, () => seconds);
  put(root, h("section", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", null, given.broker ? `Events of ${given.broker}` : "Events"), h("span", { class: "spring" }), rangeSelect(seconds, (value) => ((seconds = value), remember({ range: value }), log.load()))), log.element));
  const timer = setInterval(() => document.visibilityState === "visible" && log.load(), 3000);
  return { close: () => clearInterval(timer) };
}

const KNOWN = new Set(["broker", "sequence", "time_s", "level", "text"]);

function eventLog(given, seconds) {
  const search = h("input", { type: "search", placeholder: "Search events…", value: given.q ?? "", "aria-label": "Search events" });
  const level = h("select", { "aria-label": "Level" }, [["", "all levels"], ["info", "info"], ["warning", "warnings"], ["error", "errors"]].map(([value, name]) => h("option", { value }, name)));
  level.value = ["info", "warning", "error"].includes(given.level) ? given.level : "";
  const body = h("tbody"), found = h("span", { class: "faint" });
  const load = async () => {
    try {
      const answer = await ask(`/api/events?${query({ q: search.value, level: level.value, broker: given.broker, seconds: seconds() })}`);
      found.textContent = `${count(answer.matched)} events`;
      put(body, answer.events.map((event) => h("tr", { class: `level-${event.level}` }, h("td", { class: "time" }, clock(event.time_s)), h("td", null, link(event.broker)), h("td", null, event.text), h("td", { class: "wide" }, Object.entries(event).filter(([name]) => !KNOWN.has(name)).map(([name, value]) => h("span", { class: "pair" }, h("b", null, name), String(value)))))));
      if (!answer.events.length) put(body, h("tr", null, h("td", { colspan: 4, class: "none" }, "No events in this time.")));
    } catch (error) {
      put(body, h("tr", null, h("td", { colspan: 4, class: "problem" }, error.message)));
    }
  };
  const renew = debounced(() => {
    remember({ q: search.value, level: level.value });
    load();
  }, 200);
  search.addEventListener("input", renew);
  level.addEventListener("change", renew);
  load();
  return { load, element: h("div", { class: "table-box events" }, h("h3", null, "Event log"), h("div", { class: "table-tools" }, search, level, found), h("div", { class: "table-scroll" }, h("table", null, h("thead", null, h("tr", null, ["time", "broker", "event", "details"].map((name) => h("th", null, name)))), body))) };
}
