// What the page knows: the overlay (once), its state (every second, by server-sent events), and where the visitor is.

export const store = { overlay: null, state: null, live: false, play: null };

const listeners = new Map();

export function on(kind, call) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(call);
  return () => listeners.get(kind).delete(call);
}

export function tell(kind, value) {
  for (const call of [...(listeners.get(kind) ?? [])]) call(value);
}

export function follow() {
  const stream = new EventSource("/api/stream");
  const live = (value) => {
    if (store.live !== value) {
      store.live = value;
      tell("live", value);
    }
  };
  stream.addEventListener("overlay", (event) => {
    store.overlay = JSON.parse(event.data);
    store.byName = new Map(store.overlay.brokers.map((broker, index) => [broker.id, index]));
    tell("overlay", store.overlay);
  });
  stream.addEventListener("full", (event) => {
    store.state = JSON.parse(event.data);
    live(true);
    tell("state", store.state);
  });
  stream.addEventListener("delta", (event) => {
    if (!store.state) return;
    const delta = JSON.parse(event.data);
    for (const part of ["brokers", "links"]) for (const [index, row] of Object.entries(delta[part])) store.state[part][index] = row;
    Object.assign(store.state, { time: delta.time, totals: delta.totals });
    live(true);
    tell("state", store.state);
  });
  stream.addEventListener("play", (event) => {
    store.play = JSON.parse(event.data);
    tell("play", store.play);
  });
  stream.onerror = () => live(false);
}

// -- where we are: #/view/argument?key=value

export function place() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  return { view: decode(view) || "map", argument: decode(rest.join("/")), given: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function address(view, argument = "", given = {}) {
  const search = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== "" && value !== null && value !== undefined)).toString();
  return `#/${view}${argument ? `/${encodeURIComponent(argument)}` : ""}${search ? `?${search}` : ""}`;
}

export function go(view, argument, given) {
  location.hash = address(view, argument, given);
}

// Remember something in the address without a new entry of the history, and without showing the view anew.
export function remember(given) {
  const at = place();
  history.replaceState(null, "", address(at.view, at.argument, { ...at.given, ...given }));
}

// -- rows of the state, by name

export const BROKER = { status: 0, published: 1, delivered: 2, clients: 3, subscriptions: 4, advertisements: 5, queue: 6, cpu: 7, memory: 8, overloaded: 9, dropped: 10, clientQueue: 11 };
export const LINK = { rate: 0, queue: 1, load: 2, flags: 3 };
export const UP = 1, CONNECTED = 2, OVERLOADED = 4, AVOIDED = 8;
export const STATUS = ["ok", "down", "stopping", "wrong", "unknown"];
