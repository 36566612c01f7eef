// The portal's own script: the search in the tree of events, its count, and its examples. The pages
// work without it.
"use strict";

// Whether a pattern matches an event type: `*` is one part, a last `**` one or more.
function matches(pattern, name) {
  const wanted = pattern.split("."), parts = name.split(".");
  const open = wanted.at(-1) === "**";
  if (open) wanted.pop();
  if (open ? parts.length <= wanted.length : parts.length !== wanted.length) return false;
  return wanted.every((part, place) => part === "*" || part === parts[place]);
}

for (const tree of document.querySelectorAll("[data-tree]")) {
  const leaves = [...tree.querySelectorAll("[data-leaf]")];
  const search = tree.querySelector("[data-tree-search]");
  const count = tree.querySelector("[data-tree-count]");
  const typed = tree.closest("form")?.querySelector("[data-tree-patterns]");
  const boxes = [...tree.querySelectorAll('input[name="ticked"]')];

  function find() {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    for (const leaf of leaves) {
      const text = leaf.textContent.toLowerCase();
      leaf.hidden = !words.every((word) => text.includes(word));
    }
    for (const branch of tree.querySelectorAll("[data-branch]")) {
      const found = branch.querySelector("[data-leaf]:not([hidden])") !== null;
      branch.hidden = !found;
      if (words.length && found && branch.localName === "details") branch.open = true;
    }
    tree.querySelector("[data-tree-none]").hidden = leaves.some((leaf) => !leaf.hidden);
  }

  function recount() {
    const patterns = boxes.filter((box) => box.checked).map((box) => box.value);
    if (typed) patterns.push(...typed.value.split(/[\s,]+/).filter(Boolean));
    const types = boxes.filter((box) => !box.value.includes("*"));
    const found = types.filter((box) => patterns.some((pattern) => matches(pattern, box.value)));
    // those that a wider pattern has already: they look ticked, and cannot be ticked as well
    for (const box of boxes) {
      const isOpen = box.value.endsWith("**");
      const wider = !box.checked && patterns.some((pattern) => pattern.endsWith(isOpen ? "**" : "*") && matches(pattern, box.value.replace("**", "any")));
      box.closest(".check").classList.toggle("covered", wider);
      if (wider) box.setAttribute("aria-disabled", "true");
      else box.removeAttribute("aria-disabled");
    }
    count.classList.toggle("calm", patterns.length === 0);
    const text = patterns.length === 0 ? "Nothing chosen yet" : found.length === 0 ? "Matches no event" : found.length === 1 ? "Matches 1 event" : `Matches ${found.length} events`;
    if (count.textContent !== text) count.textContent = text;
  }

  if (search) {
    search.hidden = false;
    search.addEventListener("input", find);
    // Enter would submit the form
    search.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  }
  if (count) {
    tree.querySelector("[data-tree-recount]").hidden = true;
    tree.addEventListener("change", recount);
    tree.addEventListener("click", (event) => { if (event.target.matches('[aria-disabled="true"]')) event.preventDefault(); });
    typed?.addEventListener("input", recount);
    recount();
  }
}

document.addEventListener("toggle", async (event) => {
  const details = event.target;
  if (!details.matches?.("[data-load]") || !details.open) return;
  const path = details.dataset.load;
  details.removeAttribute("data-load");
  try {
    const response = await fetch(path);
    // redirected: the session has ended; the link inside stays
    if (response.ok && !response.redirected) details.lastElementChild.innerHTML = await response.text();
  } catch {
    details.dataset.load = path;
  }
}, true);

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});
