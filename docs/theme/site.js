// The theme makes a landmark of each block's copy button, of which a page has many, and the keyboard
// cannot scroll its wide tables.
const repair = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
  for (const nav of document.querySelectorAll("nav.md-code__nav")) nav.setAttribute("role", "presentation");
};
new MutationObserver(repair).observe(document.body, { childList: true, subtree: true });
repair();
