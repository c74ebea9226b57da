// Makes pages nicer; none needs it. `/` searches, `?` lists the keys, Escape closes the menu, a press copies
// or prints, a form is sent once and keeps what was typed until it has arrived, live pages refresh themselves, and
// the arrows move in a chart.
"use strict";

const inField = (target) => target.closest("input, select, textarea, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
  const search = document.querySelector(".find input");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
    search.select();
  }
  const keys = document.getElementById("keys");
  if (event.key === "?" && keys) {
    if (keys.open) keys.close();
    else keys.showModal();
  }
  if (event.key === "Escape" && document.querySelector(".rail:target")) {
    location.hash = "top";
    document.querySelector(".menu").focus();
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  const found = document.querySelector(button.dataset.copy);
  // Of the first press: the next may come while it still says that it is done.
  button.dataset.before ??= button.textContent;
  try {
    await navigator.clipboard.writeText(found.textContent.trim());
    button.textContent = button.dataset.done;
  } catch {
    getSelection().selectAllChildren(found);
  }
  setTimeout(() => { button.textContent = button.dataset.before; }, 1500);
});

// A form is sent once, however often its button is pressed: if it issued two tokens, the reader would see only
// one. After a download the page stays open, and may soon send the form again; any other form only if no
// answer comes, as when the reader has stopped loading.
const release = (form) => {
  clearTimeout(form.dataset.sent);
  delete form.dataset.sent;
  for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
};
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.getAttribute("method") !== "post") return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = setTimeout(release, "stays" in form.dataset ? 5000 : 60000, form);
  event.submitter?.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", () => document.querySelectorAll("[data-sent]").forEach(release));

// A filter is applied once it is chosen with the pointer. With the arrow keys each choice on the way would be: there
// the button applies it.
let isPressed = false;
for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => { isPressed = name === "pointerdown"; }, true);
document.addEventListener("change", (event) => {
  const form = event.target.closest("form.filters");
  if (isPressed && form && event.target.matches("select")) form.requestSubmit();
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-print]")) print();
});

for (const button of document.querySelectorAll("[data-copy], [data-print]")) button.hidden = false;

// A chart is a single tab stop, at first its last column; the arrow keys move from column to column.
const columnsOf = (chart) => [...chart.querySelectorAll(".column")];
const joinStops = () => {
  for (const chart of document.querySelectorAll("svg.chart"))
    columnsOf(chart).forEach((each, index, all) => { each.setAttribute("tabindex", index < all.length - 1 ? -1 : 0); });
};
joinStops();
document.addEventListener("keydown", (event) => {
  // With a modifier key they belong to the browser: Alt and ← goes back.
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const column = step && event.target.closest(".column");
  if (!column) return;
  const all = columnsOf(column.closest("svg"));
  const next = all[all.indexOf(column) + step];
  event.preventDefault();
  if (!next) return;
  column.setAttribute("tabindex", -1);
  next.setAttribute("tabindex", 0);
  next.focus();
});

// A live part is fetched again from the page's own address, until the page has none: then the job is done.
const live = document.querySelector("[data-live]");
if (live) {
  setInterval(async () => {
    if (document.hidden || live.contains(document.activeElement)) return;
    try {
      const answer = await fetch(location.href, { headers: { "X-Live": "1" } });
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const part = page.querySelector("[data-live]");
      if (!part) return location.reload();
      // What was unfolded stays so.
      const open = [...live.querySelectorAll("details")].map((each) => each.open);
      live.replaceChildren(...part.childNodes);
      live.querySelectorAll("details").forEach((each, index) => { each.open ||= open[index]; });
      joinStops();
    } catch { /* The next attempt follows. */ }
  }, Number(live.dataset.live) * 1000);
}

// What was typed is filled in again if it was not taken: the session had ended, the gateway was away, or the reader
// went back from the question. It never leaves this tab, the next person who signs in there does not get it, and
// nothing of a sign-in is kept.
const DRAFT = "draft", DRAFT_LASTS_MS = 900000;
const readDraft = () => JSON.parse(sessionStorage.getItem(DRAFT));
const keepDraft = (draft) => sessionStorage.setItem(DRAFT, JSON.stringify(draft));
const dropDraft = () => sessionStorage.removeItem(DRAFT);
const reader = document.querySelector(".who")?.textContent;
const typedIn = (form) => [...form.elements].filter((each) => each.name && !/hidden|password|file|submit/.test(each.type));
const keyOf = (form) => [form.getAttribute("action"), ...[...form.querySelectorAll("[type=hidden]")]
  .filter((each) => !["form_token", "came_from"].includes(each.name)).map((each) => `${each.name}=${each.value}`)].join();
document.addEventListener("submit", ({ target: form }) => {
  const draft = readDraft(), typed = typedIn(form);
  if (form.getAttribute("action")?.endsWith("/sign-out")) dropDraft();
  else if (form.elements.sure) draft && keepDraft({ ...draft, isOpen: false });
  else if (form.getAttribute("method") === "post" && typed.length && !form.querySelector("[autocomplete=current-password], [autocomplete=one-time-code]"))
    keepDraft({ key: keyOf(form), at: Date.now(), reader, values: typed.map((each) => each.type === "checkbox" ? each.checked : each.value) });
});
const draft = readDraft();
if (draft && reader && draft.reader !== reader) dropDraft();
else if (draft) {
  const form = [...document.forms].find((each) => keyOf(each) === draft.key);
  if (document.querySelector("[data-failed], main [name=sure]")) keepDraft({ ...draft, isOpen: true });
  else if (form || !draft.isOpen || Date.now() - draft.at > DRAFT_LASTS_MS) dropDraft();
  const isBack = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
  if (form && (draft.isOpen || isBack)) {
    typedIn(form).forEach((each, index) => { each[each.type === "checkbox" ? "checked" : "value"] = draft.values[index] ?? ""; });
    if (form.closest("details")) form.closest("details").open = true;
    typedIn(form)[0].focus();
  }
}
