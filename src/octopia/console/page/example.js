// A whole client in a page: connect, subscribe, advertise, publish.

import { connect } from "./octopia.js";

const problem = document.querySelector(".problem"), said = document.querySelector("#said");
const url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;

try {
  const client = await connect(url, { onClose: (error) => (problem.textContent = error.message) });
  await client.subscribe("room is not null and text is not null", (items) => {
    for (const { notification, publisher } of items) {
      const line = document.createElement("li");
      line.textContent = `${notification.room} · ${publisher}: ${notification.text}`;
      said.prepend(line);
    }
  });
  await client.advertise("room is not null and text is not null");
  document.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = document.querySelector("#text");
    try {
      await client.publish({ room: document.querySelector("#room").value, text: text.value });
      await client.flush();
      text.value = "";
      problem.textContent = "";
    } catch (error) {
      problem.textContent = error.message;
    }
  });
} catch (error) {
  problem.textContent = error.message;
}
