// Enhances the pages: live parts, relative times and the time zone, copying, selecting all. Pages work without it.
"use strict";

// -- the reader's time zone: a cookie names it, and the server renders times in it. A page that came
//    in another zone is loaded again, once, unless it answers a form: that shows secrets only once.
//    This runs first, so that live parts already ask with the cookie.

function keepZone() {
  const page = document.documentElement, name = page.dataset.zoneCookie;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const stored = () => document.cookie.split("; ").includes(`${name}=${zone}`);
  if (!zone || stored()) return;
  const secure = location.protocol === "https:";
  // in another site's frame, browsers keep only partitioned cookies
  const jar = secure && window !== top ? "samesite=none; secure; partitioned" : `samesite=lax${secure ? "; secure" : ""}`;
  document.cookie = `${name}=${zone}; path=/; max-age=31536000; ${jar}`;
  const shown = document.querySelector("main :is(time, .chart, .range)");
  if (shown && "reloadable" in page.dataset && stored()) location.reload();
}
keepZone();

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
    set(time, left > 0 ? `in ${span(left)}` : "due now");
  }
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// -- live parts: new HTML is morphed into the old, changing only what differs, so that focus,
//    selections and opened details stay.

function same(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
}

function morph(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE || from.isEqualNode(to)) return;
  // a live part has the absolute time; `tick` shows the relative one
  if (from.matches("time[data-ago], time[data-countdown]") && from.dateTime === to.dateTime) return;
  if (from === document.activeElement && from.matches("input, select, textarea")) return;
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(name === "open" && from.localName === "details")) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  morphChildren(from, to);
}

function morphChildren(from, to) {
  const known = new Map([...from.children].filter((each) => each.id).map((each) => [each.id, each]));
  let at = from.firstChild;
  for (const next of [...to.childNodes]) {
    const kept = next.id && known.get(next.id);
    if (kept) {
      if (kept !== at) from.insertBefore(kept, at);
      else at = at.nextSibling;
      morph(kept, next);
    } else if (at && same(at, next) && !at.id) {
      const here = at;
      at = at.nextSibling;
      morph(here, next);
    } else {
      if (next.nodeType === Node.ELEMENT_NODE && next.localName === "tr") next.classList.add("fresh");
      from.insertBefore(next, at);
    }
  }
  while (at) {
    const removed = at;
    at = at.nextSibling;
    removed.remove();
  }
}

const streams = new Map();
let live = true;
const toggle = document.querySelector("[data-live-toggle]");

// The button's text: whether the live parts are connected.
const LIVE = "Live", DISCONNECTED = "Not connected", SESSION_ENDED = "Sign in again";
const states = new Map();
const pendingDisconnects = new Map();
const GRACE_MILLIS = 5000; // streams end every few minutes and reconnect within two seconds

function setState(part, state) {
  clearTimeout(pendingDisconnects.get(part));
  pendingDisconnects.delete(part);
  states.set(part, state);
  const all = [...states.values()];
  const worst = [SESSION_ENDED, DISCONNECTED].find((each) => all.includes(each)) || LIVE;
  set(toggle, worst);
  toggle.classList.toggle("away", worst !== LIVE);
  // for screen readers
  set(document.querySelector("[data-live-said]"), worst === LIVE ? "" : worst);
}

function disconnectSoon(part) {
  if (!pendingDisconnects.has(part)) pendingDisconnects.set(part, setTimeout(() => setState(part, DISCONNECTED), GRACE_MILLIS));
}

// An EventSource does not say why it failed: ask whether the session has ended.
async function hasSessionEnded(part) {
  const request = new AbortController();
  try {
    const headers = { Accept: "text/event-stream" };
    const response = await fetch(part.dataset.live, { headers, signal: request.signal });
    return response.status === 204;
  } catch {
    return false;
  } finally {
    request.abort();
  }
}

function follow(part) {
  const source = new EventSource(part.dataset.live);
  source.onopen = () => setState(part, LIVE);
  source.onmessage = (event) => {
    const template = document.createElement("template");
    template.innerHTML = event.data;
    morphChildren(part, template.content);
    enhance(part);
    part.dispatchEvent(new CustomEvent("live"));
  };
  // An answer that is not a stream closes it for good: all slots are taken, or the session ended.
  source.onerror = async () => {
    if (streams.get(part) !== source) return;
    if (source.readyState !== EventSource.CLOSED) return disconnectSoon(part);
    streams.delete(part);
    if (await hasSessionEnded(part)) return setState(part, SESSION_ENDED);
    disconnectSoon(part);
    setTimeout(() => { if (live && !document.hidden && !streams.has(part)) follow(part); }, 10000);
  };
  streams.set(part, source);
}

function followAll() {
  for (const source of streams.values()) source.close();
  streams.clear();
  for (const part of [...states.keys(), ...pendingDisconnects.keys()]) setState(part, LIVE);
  if (!live || document.hidden) return;
  for (const part of document.querySelectorAll("[data-live]")) follow(part);
}

function enhance(root) {
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  for (const box of root.querySelectorAll("[data-check-all]")) box.hidden = false;
  tick(root);
}

if (document.querySelector("[data-live]")) {
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    if (toggle.textContent === SESSION_ENDED) return location.reload(); // redirects to the sign-in page
    live = !live;
    toggle.setAttribute("aria-pressed", String(live));
    followAll();
  });
  document.addEventListener("visibilitychange", followAll);
  addEventListener("pagehide", () => streams.forEach((source) => source.close()));
  followAll();
}

// -- a form is not sent again before its answer has arrived: the second answer would not show a
//    secret that the first one shows. The server runs each form once in any case.

const SENT_MILLIS = 30000;
const sent = new Map();
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (Date.now() - sent.get(form) < SENT_MILLIS) event.preventDefault();
  else sent.set(form, Date.now());
});
// The forms of a page restored from the browser's memory were sent already: load new tokens.
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

enhance(document);
setInterval(() => tick(document), 1000);

// -- charts: dragging over bars selects a range of time, whose list opens; Escape cancels. The arrow
//    keys move between bars (up: its failed part), with Shift they select. Without script, each bar
//    is a link.

(() => {
  const DRAG_PIXELS = 6;
  const stops = new Map(); // by chart: the bar that the Tab key reaches
  let range = null; // { chart, from, to } and, while the pointer is down, { x }
  let dragged = false; // the click that ends a drag opens nothing

  const barsOf = (chart) => [...chart.querySelectorAll("a.step")];

  function show() {
    for (const bar of document.querySelectorAll("a.step.chosen")) bar.classList.remove("chosen");
    if (!range || range.x !== undefined && !dragged) return;
    const [first, last] = [range.from, range.to].sort((a, b) => a - b);
    for (const bar of barsOf(range.chart).slice(first, last + 1)) bar.classList.add("chosen");
  }

  function clear() {
    range = null;
    show();
  }

  function open({ chart, from, to }) {
    const ends = [from, to].sort((a, b) => a - b).map((place) => new URL(barsOf(chart)[place].getAttribute("href"), location.href));
    ends[0].searchParams.set("until", ends[1].searchParams.get("until"));
    location.assign(ends[0]);
  }

  function barAt(chart, x) {
    const bars = barsOf(chart);
    const place = bars.findIndex((bar) => x < bar.querySelector(".hit").getBoundingClientRect().right);
    return place < 0 ? bars.length - 1 : place;
  }

  function prepare() {
    for (const chart of document.querySelectorAll("svg[data-brush]")) {
      const bars = barsOf(chart);
      const filled = bars.findLastIndex((bar) => !bar.hasAttribute("tabindex"));
      if (!stops.has(chart)) stops.set(chart, filled < 0 ? bars.length - 1 : filled);
      bars.forEach((bar, place) => bar.setAttribute("tabindex", place === stops.get(chart) ? "0" : "-1"));
      for (const part of chart.querySelectorAll("a.part")) part.setAttribute("tabindex", "-1");
    }
    for (const hint of document.querySelectorAll("[data-brush-hint]")) hint.hidden = false;
    show();
  }

  function stopAt(chart, place) {
    stops.set(chart, place);
    prepare();
    barsOf(chart)[place].focus();
  }

  document.addEventListener("pointerdown", (event) => {
    dragged = false;
    clear();
    const chart = event.target.closest("svg[data-brush]");
    if (!chart || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const from = barAt(chart, event.clientX);
    range = { chart, from, to: from, x: event.clientX };
  });
  document.addEventListener("pointermove", (event) => {
    if (range?.x === undefined) return;
    if (!dragged && Math.abs(event.clientX - range.x) > DRAG_PIXELS) {
      dragged = true;
      range.chart.setPointerCapture(event.pointerId);
    }
    range.to = barAt(range.chart, event.clientX);
    show();
  });
  document.addEventListener("pointerup", () => {
    if (dragged && range) open(range);
    clear();
  });
  document.addEventListener("pointercancel", clear);
  document.addEventListener("click", (event) => { if (dragged) event.preventDefault(); dragged = false; }, true);
  document.addEventListener("dragstart", (event) => { if (event.target.closest?.("svg[data-brush]")) event.preventDefault(); });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return clear();
    const chart = document.activeElement.closest?.("svg[data-brush]");
    if (!chart) return;
    const group = document.activeElement.closest("g") ?? document.activeElement;
    const bars = barsOf(chart);
    const place = bars.indexOf(group.querySelector("a.step") ?? group);
    if (event.key === "Enter" && range?.chart === chart) {
      event.preventDefault();
      return open(range);
    }
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const to = group.querySelector(event.key === "ArrowUp" ? "a.part" : "a.step");
      if (!to) return;
      event.preventDefault();
      return to.focus();
    }
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to < 0 || to >= bars.length) return;
    range = event.shiftKey ? { chart, from: range?.chart === chart ? range.from : place, to } : null;
    stopAt(chart, to);
  });
  document.addEventListener("live", prepare, true); // it does not bubble
  prepare();
})();

// -- search: `/` goes to the box in the header
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const box = document.querySelector("[data-search]");
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
});

// -- fields in which one picks by name: ask for the suggestions that match, if not all are there
const CHOICES_MILLIS = 200; // between two keys of a fast typist
const waiting = new WeakMap();
document.addEventListener("input", (event) => {
  const field = event.target;
  if (!field.matches?.("[data-choices]") || !field.list) return;
  clearTimeout(waiting.get(field));
  waiting.set(field, setTimeout(async () => {
    const text = field.value;
    try {
      const response = await fetch(`${field.dataset.choices}?q=${encodeURIComponent(text)}`);
      // redirected: the session has ended. The server resolves the text in any case.
      if (response.ok && !response.redirected && field.value === text) field.list.innerHTML = await response.text();
    } catch {} // without a connection, the suggestions stay as they are
  }, CHOICES_MILLIS));
});
