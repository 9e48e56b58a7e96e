// The access token goes into the body of one request and nowhere else; what the browser keeps is a cookie.

const said = document.querySelector(".problem");

document.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = document.querySelector("#token").value;
  const answer = await fetch("/login", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) }).catch(() => null);
  if (answer?.ok) location.assign("/");
  else said.textContent = (await answer?.json().catch(() => null))?.message ?? "the console does not answer";
});
