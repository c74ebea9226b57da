// Sends the form of the reference to the operation itself, with the reader's token.
"use strict";

const LINES_SHOWN = 20;

/** An envelope, or the first lines of a file. */
async function shownText(answer) {
  if (answer.headers.get("Content-Type") !== "application/gzip") {
    return JSON.stringify(await answer.json(), null, 2);
  }
  const unpacked = answer.body.pipeThrough(new DecompressionStream("gzip"));
  const lines = (await new Response(unpacked).text()).split("\n").slice(0, LINES_SHOWN);
  return lines.join("\n");
}

const form = document.querySelector("[data-try]");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { method, path, encoding } = form.dataset;
  const headers = { Authorization: `Bearer ${form.querySelector("[data-token]").value.trim()}` };
  for (const field of form.querySelectorAll("[data-header]")) {
    if (field.value.trim() !== "") {
      headers[field.dataset.header] = field.value.trim();
    }
  }
  let address = path;
  let body;
  const shown = document.getElementById("try-answer");
  shown.hidden = false;
  try {
    const sent = [...form.querySelectorAll("input[name]")]
      .filter((field) => field.name && field.value !== "")
      .map((field) => [field.name, "json" in field.dataset ? JSON.parse(field.value) : field.value]);
    if (encoding === "query") {
      address += sent.length ? `?${new URLSearchParams(sent)}` : "";
    } else if (encoding === "json") {
      headers["Content-Type"] = "application/json";
      body = JSON.stringify(Object.fromEntries(sent));
    } else {
      body = new URLSearchParams(sent);
    }
    const answer = await fetch(address, { method, headers, body });
    shown.textContent = await shownText(answer);
  } catch (error) {
    shown.textContent = String(error);
  }
});
