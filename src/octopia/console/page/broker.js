// One broker: its state, its links with their trends, and its tables.

import { h, put, ask, count, rate, bytes, duration } from "./dom.js";
import { store, on, go, place, remember, address, BROKER, LINK, STATUS } from "./store.js";
import { Chart, sparkline } from "./chart.js";
import { Table, text } from "./table.js";
import { OverlayMap, linkState, loadColour } from "./map.js";

const filterText = (row) => h("code", { class: "filter" }, row.filter);
const client = (row) => (row.client ? h("a", { href: address("why", "", { client: row.client }) }, row.client) : h("span", { class: "faint" }, "–"));

const TABLES = {
  clients: [
    { key: "client", label: "client", show: client },
    { key: "connected", label: "state", show: (row) => (row.connected ? (row.paused ? "paused" : row.slow ? "slow" : "connected") : `away ${duration(row.away_s ?? 0)}`) },
    { key: "policy", label: "policy" },
    { key: "queue", label: "queue", numeric: true, show: (row) => h("span", { class: row.queue > row.queue_max / 2 ? "bad" : row.queue ? "warn" : "" }, count(row.queue)) },
    { key: "dropped", label: "dropped", numeric: true, show: (row) => h("span", { class: row.dropped ? "bad" : "" }, count(row.dropped)) },
    { key: "send_rate", label: "out/s", numeric: true },
    { key: "publish_rate", label: "in/s", numeric: true },
    { key: "wait_s", label: "wait", numeric: true, show: (row) => (row.wait_s === null || row.wait_s === undefined ? "–" : duration(row.wait_s)) },
    { key: "subscriptions", label: "subs", numeric: true },
    { key: "advertisements", label: "advs", numeric: true },
    { key: "peer", label: "address" },
  ],
  subscriptions: [
    { key: "client", label: "client", show: client },
    { key: "filter", label: "filter", show: filterText },
    { key: "from", label: "from" },
    { key: "host", label: "host broker" },
    { key: "policy", label: "policy" },
    { key: "priority", label: "priority", numeric: true },
  ],
  advertisements: [
    { key: "client", label: "client", show: client },
    { key: "filter", label: "filter", show: filterText },
    { key: "from", label: "from" },
    { key: "host", label: "host broker" },
    { key: "civ", label: "CIV", show: (row) => h("code", null, row.civ ? row.civ.padStart(store.overlay.clusters, "0") : "–") },
    { key: "interest", label: "interest", numeric: true },
  ],
};

export function brokerView(root, given, id) {
  const index = store.byName?.get(id);
  if (store.overlay && index === undefined) {
    put(root, h("section", { class: "panel" }, h("h2", null, `There is no broker ${id}`), h("a", { href: "#/map" }, "Back to the map")));
    return {};
  }
  const parts = [];
  const status = h("span", { class: "status" }), facts = h("dl", { class: "facts" }), links = h("tbody");
  const map = new OverlayMap({ compact: true });
  map.choose(id);
  parts.push(map);
  const inOut = new Chart("Notifications per second", [
    { name: `${id} published`, label: "in", live: (state) => state.brokers[index]?.[BROKER.published] },
    { name: `${id} delivered`, label: "delivered", live: (state) => state.brokers[index]?.[BROKER.delivered] },
  ], { format: count });
  const queues = new Chart("Queues", [
    { name: `${id} queue`, label: "Q_l of links", live: (state) => state.brokers[index]?.[BROKER.queue] },
    { name: `${id} client_queue`, label: "clients", live: (state) => state.brokers[index]?.[BROKER.clientQueue] },
  ], { format: count });
  parts.push(inOut, queues);
  let chosen = given.table in TABLES ? given.table : "clients", table = null;
  const tabs = h("div", { class: "tabs", role: "tablist" }), box = h("div");
  const open = (name, options = {}) => {
    chosen = name;
    table?.close();
    put(tabs, Object.keys(TABLES).map((each) => h("button", { type: "button", role: "tab", "aria-selected": String(each === name), onclick: () => (remember({ table: each, q: "", sort: "" }), open(each)) }, each)));
    table = new Table(id, TABLES[name], { table: name, broker: id, sort: options.sort ?? "", q: options.q ?? "", every: 2, keep: remember, placeholder: `Search ${name}…` });
    put(box, table.element);
  };
  put(root, h("section", { class: "panel broker-panel" },
    h("header", { class: "panel-head" }, h("h2", null, `Broker ${id}`), status, h("span", { class: "spring" }), h("a", { class: "button", href: address("events", "", { broker: id }) }, "Events")),
    h("div", { class: "broker-top" }, facts, h("div", { class: "mini" }, map.element)),
    h("div", { class: "charts two" }, inOut.element, queues.element),
    h("h3", null, "Links"),
    h("div", { class: "table-scroll" }, h("table", { class: "links" }, h("thead", null, h("tr", null, ["to", "state", "rate", "Q_l", "of τ", "last 5 min"].map((name) => h("th", null, name)))), links)),
    tabs, box));
  open(chosen, given);
  let details = {}, trends = {};
  const paint = () => {
    const row = store.state?.brokers[index];
    if (!row) return;
    const state = STATUS[row[BROKER.status]];
    status.className = `status is-${state}`;
    status.textContent = state === "ok" && row[BROKER.overloaded] ? `overloaded: ${row[BROKER.overloaded]}` : row[BROKER.overloaded] ? `${state}: ${row[BROKER.overloaded]}` : state;
    const fact = (name, value) => [h("dt", null, name), h("dd", null, value)];
    put(facts, fact("clients", count(row[BROKER.clients])), fact("subscriptions (PRT)", count(row[BROKER.subscriptions])), fact("advertisements (SRT)", count(row[BROKER.advertisements])), fact("in", rate(row[BROKER.published])), fact("delivered", rate(row[BROKER.delivered])), fact("dropped", `${rate(row[BROKER.dropped])} (${count(details.dropped ?? 0)} in all)`), fact("went around", count(details.around)), fact("CPU of its process", row[BROKER.cpu] === null ? "–" : `${Math.round(row[BROKER.cpu] * 100)} %${details.shares > 1 ? ` (${details.shares} brokers)` : ""}`), fact("memory of its process", bytes(row[BROKER.memory] * 2 ** 20)), fact("version", details.version || "–"), fact("up", duration(details.uptime_s)), fact("address", details.url || "–"));
    put(links, linkRows(index, trends));
  };
  const renew = async () => {
    try {
      details = await ask(`/api/broker?id=${encodeURIComponent(id)}`);
      const names = details.links.map((each) => ["name", `${id}-${each.neighbour} rate`]);
      trends = (await ask(`/api/history?${new URLSearchParams([...names, ["seconds", 300]])}`)).series;
      paint();
    } catch {
      // The next look may work; the status says what is wrong.
    }
  };
  renew();
  const timer = setInterval(() => document.visibilityState === "visible" && renew(), 5000);
  const off = on("state", paint);
  paint();
  return { close: () => { clearInterval(timer); off(); table?.close(); for (const part of parts) part.close(); } };
}

function linkRows(index, trends) {
  const { overlay, state } = store, id = overlay.brokers[index].id, rows = [];
  overlay.links.forEach(([source, target, kind], at) => {
    if (source !== index && target !== index) return;
    const way = source === index ? 0 : 1, other = overlay.brokers[way ? source : target].id, row = state.links[2 * at + way], status = linkState(row);
    const bar = h("span", { class: "load-bar" });
    const fill = h("i");
    fill.style.width = `${Math.min(100, (row[LINK.load] ?? 0) * 100)}%`;
    fill.style.background = loadColour(row[LINK.load] ?? 0);
    bar.append(fill);
    const points = (trends[`${id}-${other} rate`] ?? []).map(([, value]) => value);
    rows.push(h("tr", null, h("td", null, h("a", { href: address("broker", other) }, other), h("span", { class: "faint" }, kind === "a" ? " aLink" : " iLink")), h("td", null, h("span", { class: `status is-${status}` }, status === "avoided" ? "overloaded, detoured" : status)), h("td", { class: "number" }, rate(row[LINK.rate])), h("td", { class: "number" }, count(row[LINK.queue])), h("td", null, bar), h("td", null, points.length ? sparkline(points) : "")));
  });
  return rows;
}
