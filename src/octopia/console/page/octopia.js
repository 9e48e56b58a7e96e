// A client of an OctopiA overlay for browsers: a small wrapper around the WebSocket protocol of the console.
//
//   import { connect } from "./octopia.js";
//   const client = await connect("ws://127.0.0.1:8400/ws", { name: "feed", token: "…" });
//   const quotes = await client.subscribe("price > 100", (items, skipped) => console.log(items, skipped));
//   await client.advertise("symbol is not null and price > 0");
//   await client.publish({ symbol: "AAPL", price: 120 });
//   await client.flush();
//
// What is refused throws an OctopiaError with `code`, `message` and, for a filter, `position`.

const CREDIT = 200;

export class OctopiaError extends Error {
  constructor(frame) {
    super(frame.message);
    this.name = "OctopiaError";
    Object.assign(this, frame);
  }
}

export async function connect(url, { name = "", token = "", onStatus = () => {}, onClose = () => {} } = {}) {
  const client = new Client(new WebSocket(url), onStatus, onClose);
  await client._opened;
  const welcome = await client._ask({ type: "hello", version: 1, name, token });
  Object.assign(client, { name: welcome.name, broker: welcome.broker, mayPublish: welcome.may_publish, limits: welcome.limits });
  return client;
}

class Client {
  constructor(socket, onStatus, onClose) {
    this._socket = socket;
    this._next = 1;
    this._waiting = new Map();
    this._subscriptions = new Map();
    this._early = new Map(); // notifications that came before the answer to their subscribe
    this._onStatus = onStatus;
    this._onClose = onClose;
    this._opened = new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new OctopiaError({ code: "unreachable", message: "the console does not answer" }));
    });
    socket.onmessage = (event) => this._take(JSON.parse(event.data));
    socket.onclose = (event) => this._end(event);
  }

  async subscribe(filter, onNotifications, { rateMax, ...options } = {}) {
    const answer = await this._ask({ type: "subscribe", filter, credit: CREDIT, ...(rateMax === undefined ? {} : { rate_max: rateMax }), ...options });
    const id = answer.subscription;
    const subscription = {
      id,
      setRate: (rate) => this._send({ type: "rate", subscription: id, rate_max: rate }),
      close: async () => {
        this._subscriptions.delete(id);
        await this._ask({ type: "unsubscribe", subscription: id });
      },
    };
    this._subscriptions.set(id, onNotifications);
    for (const frame of this._early.get(id) ?? []) this._deliver(frame);
    this._early.delete(id);
    return subscription;
  }

  async advertise(filter) {
    return (await this._ask({ type: "advertise", filter })).advertisement;
  }

  unadvertise(advertisement) {
    return this._ask({ type: "unadvertise", advertisement });
  }

  async publish(notification) {
    return (await this._ask({ type: "publish", notification })).notification;
  }

  flush() {
    return this._ask({ type: "flush" });
  }

  close() {
    this._socket.close(1000);
  }

  _send(frame) {
    if (this._socket.readyState === WebSocket.OPEN) this._socket.send(JSON.stringify(frame));
  }

  _ask(frame) {
    const id = String(this._next++);
    return new Promise((resolve, reject) => {
      if (this._socket.readyState !== WebSocket.OPEN) {
        reject(new OctopiaError({ code: "unreachable", message: "the connection is closed" }));
        return;
      }
      this._waiting.set(id, { resolve, reject });
      this._send({ ...frame, id });
    });
  }

  _take(frame) {
    if (frame.type === "notifications") {
      this._deliver(frame);
    } else if (frame.type === "status") {
      this._onStatus(frame);
    } else if (frame.id && this._waiting.has(frame.id)) {
      const { resolve, reject } = this._waiting.get(frame.id);
      this._waiting.delete(frame.id);
      if (frame.type === "error") reject(new OctopiaError(frame));
      else resolve(frame);
    } else if (frame.type === "error") {
      this._lastError = frame;
      this._onStatus(frame);
    }
  }

  _deliver(frame) {
    const take = this._subscriptions.get(frame.subscription);
    if (!take) {
      // Not answered yet, or closed a moment ago; what came first is kept, within bounds.
      const early = this._early.get(frame.subscription) ?? [];
      if (this._early.size < 10 && early.length < 10) this._early.set(frame.subscription, [...early, frame]);
      return;
    }
    take(frame.items, frame.skipped ?? 0);
    if (frame.items.length) this._send({ type: "credit", subscription: frame.subscription, add: frame.items.length });
  }

  _end(event) {
    const error = new OctopiaError(this._lastError ?? { code: "unreachable", message: event.reason || "the connection was closed" });
    for (const { reject } of this._waiting.values()) reject(error);
    this._waiting.clear();
    this._onClose(error);
  }
}
