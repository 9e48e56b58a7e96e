// Charts of the whole overlay, with up to an hour of history.

import { h, put, count, duration } from "./dom.js";
import { remember, store } from "./store.js";
import { Chart } from "./chart.js";

export const overlayCharts = (seconds) => [
  new Chart("Rates", [{ name: "published", label: "published/s", total: "published" }, { name: "delivered", label: "delivered/s", total: "delivered" }, { name: "dropped", label: "dropped/s", total: "dropped" }], { format: count, seconds }),
  new Chart("Delay, end to end", [{ name: "delay_p50", label: "median", total: "delay_p50" }, { name: "delay_p90", label: "p90", total: "delay_p90" }, { name: "delay_p99", label: "p99", total: "delay_p99" }], { format: duration, seconds }),
  new Chart("Q_l of all links", [{ name: "queue", label: "in links", total: "queue" }, { name: "client_queue", label: "for clients", total: "client_queue" }], { format: count, seconds }),
];

export function chartsView(root, given) {
  const seconds = ["300", "900", "3600"].includes(given.range) ? given.range : "900";
  const charts = overlayCharts(Number(seconds));
  const select = h("select", { "aria-label": "Time range", onchange: () => {
    remember({ range: select.value });
    for (const chart of charts) chart.range(Number(select.value));
  } }, [["300", "last 5 minutes"], ["900", "last 15 minutes"], ["3600", "last hour"]].map(([value, name]) => h("option", { value }, name)));
  select.value = seconds;
  put(root, h("section", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", null, "Charts"), h("span", { class: "spring" }), select), h("div", { class: "charts" }, charts.map((chart) => chart.element)), h("p", { class: "faint" }, store.overlay?.delays === false ? "Delays are not measured: the console was started with --no-delays." : "Delays are measured by clients of the console at up to 12 brokers, which send each other a notification a second.")));
  return { close: () => charts.forEach((chart) => chart.close()) };
}
