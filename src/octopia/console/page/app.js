// The page: what is on top, which view is shown, and the keyboard.

import { h, put, ask, count, rate, duration, debounced } from "./dom.js";
import { store, on, follow, place, address, go, BROKER, STATUS } from "./store.js";
import { mapView } from "./map.js";
import { brokerView } from "./broker.js";
import { listenView } from "./listen.js";
import { publishView } from "./publish.js";
import { whyView } from "./why.js";
import { troubleView, eventsView } from "./trouble.js";
import { chartsView } from "./charts.js";
import { playView } from "./play.js";
import { tour } from "./tour.js";

const VIEWS = { map: mapView, broker: brokerView, listen: listenView, publish: publishView, why: whyView, trouble: troubleView, events: eventsView, charts: chartsView, play: playView };
const NAMES = [["map", "Map", "m"], ["listen", "Listen", "l"], ["publish", "Probe", "p"], ["why", "Why?", "y"], ["trouble", "Trouble", "t"], ["charts", "Charts", "c"], ["play", "Play", "g"]];

const root = document.querySelector("main"), nav = document.querySelector("nav"), totals = document.querySelector(".totals"), banner = document.querySelector(".banner");
let view = null, shown = "";

function show() {
  const at = place(), key = `${at.view}/${at.argument}`;
  if (!(at.view in VIEWS)) return go("map");
  view?.close?.();
  shown = key;
  for (const link of nav.children) link.setAttribute("aria-current", link.dataset.view === at.view || (link.dataset.view === "map" && at.view === "broker") ? "page" : "false");
  put(root);
  view = VIEWS[at.view](root, at.given, at.argument) ?? null;
  document.title = `${at.argument || NAMES.find(([name]) => name === at.view)?.[1] || at.view} · OctopiA`;
}

function navigation() {
  put(nav, NAMES.filter(([name]) => name !== "play" || store.overlay?.demo).map(([name, label, key]) => h("a", { href: `#/${name}`, "data-view": name, title: `${label} (${key})` }, label)));
}

function number(label, value, kind = "", href = "") {
  return h(href ? "a" : "span", { class: `number ${kind}`, href: href || null }, h("b", null, value), h("i", null, label));
}

function paintTotals() {
  const now = store.state?.totals;
  if (!now) return;
  put(totals,
    number("brokers", `${now.up}/${now.brokers}`, now.up < now.brokers ? "bad" : "", now.up < now.brokers ? "#/trouble" : ""),
    number("clients", count(now.clients)), number("published", rate(now.published)), number("delivered", rate(now.delivered)),
    number("Q_l", count(now.queue), now.overloaded ? "warn" : ""),
    number("overloaded", count(now.overloaded), now.overloaded ? "bad" : "", now.overloaded ? "#/trouble" : ""),
    now.delay_p99 !== undefined && number("p99 delay", duration(now.delay_p99)),
    now.dropped > 0 && number("dropped", rate(now.dropped), "bad", "#/trouble"));
}

function searchBox() {
  const input = document.querySelector("#search"), list = document.querySelector("#found");
  let items = [], chosen = 0;
  const paint = () => {
    put(list, items.map((item, at) => h("a", { href: item.href, class: at === chosen ? "on" : "", role: "option", "aria-selected": String(at === chosen), onclick: () => close() }, h("b", null, item.name), h("span", null, item.kind))));
    list.hidden = !items.length;
    input.setAttribute("aria-expanded", String(items.length > 0));
  };
  const close = () => {
    items = [];
    input.value = "";
    input.blur();
    paint();
  };
  const look = debounced(async () => {
    const text = input.value.trim().toLowerCase();
    chosen = 0;
    if (!text) return (items = []), paint();
    const brokers = (store.overlay?.brokers ?? []).filter((broker) => broker.id.includes(text)).slice(0, 6).map((broker) => ({ name: broker.id, kind: "broker", href: address("broker", broker.id) }));
    items = brokers;
    paint();
    try {
      const [clients, subscriptions] = await Promise.all([ask(`/api/tables?table=clients&limit=6&q=${encodeURIComponent(text)}`), ask(`/api/tables?table=subscriptions&limit=12&q=${encodeURIComponent(text)}`)]);
      if (input.value.trim().toLowerCase() !== text) return;
      items = [...brokers, ...clients.rows.map((row) => ({ name: row.client, kind: `client at ${row.broker}`, href: address("broker", row.broker, { table: "clients", q: row.client }) })), ...subscriptions.rows.filter((row) => row.client).slice(0, 6).map((row) => ({ name: row.filter, kind: `subscription of ${row.client} at ${row.broker}`, href: address("broker", row.broker, { table: "subscriptions", q: row.client }) })), { name: `Listen to ${text}`, kind: "filter", href: address("listen", "", { filter: input.value.trim() }) }];
      paint();
    } catch {
      // Brokers alone, then.
    }
  }, 120);
  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && items[chosen]) (location.hash = items[chosen].href), close();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : items.length - 1)) % Math.max(items.length, 1);
      paint();
    }
  });
  document.addEventListener("click", (event) => !event.target.closest(".search") && items.length && ((items = []), paint()));
  return input;
}

function theme() {
  const button = document.querySelector("#theme"), saved = localStorage.getItem("octopia-theme");
  const apply = (name) => (name ? (document.documentElement.dataset.theme = name) : delete document.documentElement.dataset.theme);
  if (saved === "dark" || saved === "light") apply(saved);
  button.addEventListener("click", () => {
    const dark = (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    apply(dark ? "light" : "dark");
    localStorage.setItem("octopia-theme", dark ? "light" : "dark");
  });
}

function keyboard(search) {
  const help = document.querySelector("#help");
  put(help.querySelector("dl"), [["/", "search brokers, clients and subscriptions"], ...NAMES.filter(([name]) => name !== "play" || store.overlay?.demo).map(([, label, key]) => [key, label]), ["+ − 0", "zoom the map, show all of it"], ["arrows", "move the map"], ["d", "light or dark"], ["?", "this list"]].map(([key, text]) => [h("dt", null, h("kbd", null, key)), h("dd", null, text)]));
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const named = NAMES.find(([, , key]) => key === event.key);
    if (event.key === "/") event.preventDefault(), search.focus();
    else if (event.key === "?") help.open ? help.close() : help.showModal();
    else if (event.key === "d") document.querySelector("#theme").click();
    else if (event.key === "Escape") place().view === "broker" && go("map");
    else if (named && (named[0] !== "play" || store.overlay?.demo)) go(named[0]);
  });
  help.querySelector("button").addEventListener("click", () => help.close());
  document.querySelector("#keys").addEventListener("click", () => help.showModal());
}

theme();
const search = searchBox();
navigation();
addEventListener("hashchange", show);
on("live", (live) => {
  banner.hidden = live;
  banner.textContent = live ? "" : "The console does not answer. What you see is old; trying again…";
});
on("state", paintTotals);
let first = true;
on("overlay", (overlay) => {
  document.querySelector(".overlay-name").textContent = `${overlay.name} · ${overlay.routing.toUpperCase()}`;
  navigation();
  document.querySelector("#again").hidden = !overlay.demo;
  if (first) {
    first = false;
    keyboard(search);
    show();
    tour();
  } else if (!overlay.brokers.length) show();
  else for (const link of nav.children) link.setAttribute("aria-current", link.dataset.view === place().view ? "page" : "false");
});
document.querySelector("#again").addEventListener("click", () => tour(true));
follow();
