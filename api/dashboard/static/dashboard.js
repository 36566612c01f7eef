// What pages do besides being pages: parts that follow the server, times that pass, copying.
// Everything works without it.
"use strict";

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function span(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || (parts.length && parts.length < 2)) parts.push([count, unit]);
    if (parts.length === 2) break;
  }
  return parts.filter(([count]) => count).map(([count, unit]) => `${count} ${unit}`).join(" ") || "0 s";
}

function ago(seconds) {
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) || units[3];
  const count = Math.floor(Math.abs(seconds) / size);
  if (!count) return "now";
  return seconds > 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
}

function tick(root) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time[data-ago]")) {
    set(time, ago((now - Date.parse(time.dateTime)) / 1000));
  }
  for (const time of root.querySelectorAll("time[data-countdown]")) {
    const left = (Date.parse(time.dateTime) - now) / 1000;
    set(time, left > 0 ? `in ${span(left)}` : "any moment");
  }
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// -- live parts: the new HTML is laid over the old, and only what is different is changed, so that
//    focus, selections and opened details stay.

function same(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
}

function lay(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE || from.isEqualNode(to)) return;
  // a live part says when, and `tick` how long ago
  if (from.matches("time[data-ago], time[data-countdown]") && from.dateTime === to.dateTime) return;
  if (from === document.activeElement && from.matches("input, select, textarea")) return;
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(name === "open" && from.localName === "details")) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  layChildren(from, to);
}

function layChildren(from, to) {
  const known = new Map([...from.children].filter((each) => each.id).map((each) => [each.id, each]));
  let at = from.firstChild;
  for (const next of [...to.childNodes]) {
    const kept = next.id && known.get(next.id);
    if (kept) {
      if (kept !== at) from.insertBefore(kept, at);
      else at = at.nextSibling;
      lay(kept, next);
    } else if (at && same(at, next) && !at.id) {
      const here = at;
      at = at.nextSibling;
      lay(here, next);
    } else {
      if (next.nodeType === Node.ELEMENT_NODE && next.localName === "tr") next.classList.add("fresh");
      from.insertBefore(next, at);
    }
  }
  while (at) {
    const over = at;
    at = at.nextSibling;
    over.remove();
  }
}

const streams = new Map();
let live = true;
const toggle = document.querySelector("[data-live-toggle]");

// What the button says: that what one sees is live, or that it is not.
const LIVE = "Live", AWAY = "Not connected", OVER = "Sign in again";
const states = new Map();
const doubts = new Map();
const DOUBT_MILLIS = 5000; // streams end and begin anew every few minutes, in two seconds

function tell(part, state) {
  clearTimeout(doubts.get(part));
  doubts.delete(part);
  states.set(part, state);
  const all = [...states.values()];
  const worst = [OVER, AWAY].find((each) => all.includes(each)) || LIVE;
  set(toggle, worst);
  toggle.classList.toggle("away", worst !== LIVE);
  // for those who do not look at the button
  set(document.querySelector("[data-live-said]"), worst === LIVE ? "" : worst);
}

function doubt(part) {
  if (!doubts.has(part)) doubts.set(part, setTimeout(() => tell(part, AWAY), DOUBT_MILLIS));
}

// Why there is no stream: an EventSource does not say.
async function isOver(part) {
  const asking = new AbortController();
  try {
    const headers = { Accept: "text/event-stream" };
    const answer = await fetch(part.dataset.live, { headers, signal: asking.signal });
    return answer.status === 204;
  } catch {
    return false;
  } finally {
    asking.abort();
  }
}

function follow(part) {
  const source = new EventSource(part.dataset.live);
  source.onopen = () => tell(part, LIVE);
  source.onmessage = (event) => {
    const template = document.createElement("template");
    template.innerHTML = event.data;
    layChildren(part, template.content);
    dress(part);
    part.dispatchEvent(new CustomEvent("live"));
  };
  // An answer that is no stream ends it for good: a full house, or a session that is over.
  source.onerror = async () => {
    if (streams.get(part) !== source) return;
    if (source.readyState !== EventSource.CLOSED) return doubt(part);
    streams.delete(part);
    if (await isOver(part)) return tell(part, OVER);
    doubt(part);
    setTimeout(() => { if (live && !document.hidden && !streams.has(part)) follow(part); }, 10000);
  };
  streams.set(part, source);
}

function followAll() {
  for (const source of streams.values()) source.close();
  streams.clear();
  for (const part of [...states.keys(), ...doubts.keys()]) tell(part, LIVE);
  if (!live || document.hidden) return;
  for (const part of document.querySelectorAll("[data-live]")) follow(part);
}

function dress(root) {
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  for (const box of root.querySelectorAll("[data-check-all]")) box.hidden = false;
  tick(root);
}

if (document.querySelector("[data-live]")) {
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    if (toggle.textContent === OVER) return location.reload(); // which asks for the key
    live = !live;
    toggle.setAttribute("aria-pressed", String(live));
    followAll();
  });
  document.addEventListener("visibilitychange", followAll);
  addEventListener("pagehide", () => streams.forEach((source) => source.close()));
  followAll();
}

// -- a form that was sent is not sent again before its answer is here: with the first answer a
//    secret would be lost. The server does nothing twice in any case.

const SENT_MILLIS = 30000;
const sent = new Map();
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (Date.now() - sent.get(form) < SENT_MILLIS) event.preventDefault();
  else sent.set(form, Date.now());
});
// A page that comes back from the browser's memory has forms that have done their work.
addEventListener("pageshow", (event) => { if (event.persisted && sent.size) location.reload(); });

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
});

document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-check-all]")) return;
  const form = event.target.closest("table");
  for (const box of form.querySelectorAll('tbody input[type="checkbox"]')) box.checked = event.target.checked;
});

document.querySelector(".menu [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
dress(document);
setInterval(() => tick(document), 1000);
