// Sends the form of the reference to the operation itself, with the reader's test token.
"use strict";

const form = document.querySelector("[data-try]");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { method, path, encoding } = form.dataset;
  const headers = { Authorization: `Bearer ${form.querySelector("[data-token]").value.trim()}` };
  let address = path;
  let body;
  const shown = document.getElementById("try-answer");
  shown.hidden = false;
  try {
    const sent = [...form.querySelectorAll("input[name]")]
      .filter((field) => field.name && field.value !== "")
      .map((field) => [field.name, "json" in field.dataset ? JSON.parse(field.value) : field.value]);
    if (encoding === "query") {
      address += `?${new URLSearchParams(sent)}`;
    } else if (encoding === "json") {
      headers["Content-Type"] = "application/json";
      body = JSON.stringify(Object.fromEntries(sent));
    } else {
      body = new URLSearchParams(sent);
    }
    const answer = await fetch(address, { method, headers, body });
    shown.textContent = JSON.stringify(await answer.json(), null, 2);
  } catch (error) {
    shown.textContent = String(error);
  }
});
