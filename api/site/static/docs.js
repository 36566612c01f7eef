// Starts Swagger UI on /docs, and repairs what it leaves inaccessible: names of controls, levels of
// headings, links within buttons, code that only a mouse can scroll.
(async () => {
  "use strict";
  const main = document.getElementById("content");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  theme();
  dark.addEventListener("change", theme);

  const spec = await (await fetch(main.dataset.document)).json();
  const used = new Set(Object.values(spec.paths).flatMap(Object.values).flatMap((operation) => operation.tags));
  spec.tags = spec.tags.filter((tag) => used.has(tag.name)); // webhooks have a section of their own

  const all = (selector) => document.querySelectorAll(selector);
  const set = (selector, attribute, value) => {
    for (const element of all(selector)) {
      const text = typeof value === "function" ? value(element) : value;
      if (text && element.getAttribute(attribute) !== text) element.setAttribute(attribute, text);
    }
  };
  const unset = (selector, attribute) => all(selector).forEach((element) => element.removeAttribute(attribute));
  const field = (element) => element.closest("[data-param-name]")?.dataset.paramName || element.placeholder || "Value";

  function repair() {
    unset(".opblock-summary-control a[href]", "href"); // a link within a button
    unset("label[id$=_requests_select]", "id"); // its select has the same
    set("svg:not([role])", "aria-hidden", "true");
    unset("table[role=region]", "role"); // else it is no table
    set("table.responses-table", "aria-label", "Responses");
    set("pre.microlight, .model-box, .renderedMarkdown pre", "tabindex", "0");
    set(".examples-select-element", "aria-label", "Example");
    set("select:not([aria-label], .examples-select-element)", "aria-label", field);
    set("textarea:not([aria-label]), input:not([aria-label], [id])", "aria-label", (element) =>
      element.matches(".body-param__text") ? "Request body" : field(element));
    set(".close-modal", "aria-label", "Close");
    unset(".modal-btn[aria-label]", "aria-label"); // it differs from the text
    set(".modal-ux", "role", "dialog");
    set(".modal-ux", "aria-modal", "true");
    set(".modal-ux", "aria-label", "Available authorizations");
    let level = 0;
    for (const heading of all("h1, h2, h3, h4, h5, h6")) {
      level = Math.min(Number(heading.localName[1]), level + 1);
      if (level < Number(heading.localName[1])) heading.setAttribute("aria-level", level);
      else heading.removeAttribute("aria-level");
    }
  }
  let planned = false;
  new MutationObserver(() => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => { planned = false; repair(); });
  }).observe(document.body, { childList: true, subtree: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.querySelector(".close-modal")?.click();
  });

  const root = main.appendChild(document.createElement("div"));
  SwaggerUIBundle({
    spec,
    domNode: root,
    deepLinking: true,
    docExpansion: "none", // with all operations shown, opening one takes a second
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    showExtensions: true,
    syntaxHighlight: { theme: "agate" },
  });
})();
