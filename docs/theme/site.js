// The theme makes a landmark of each block's copy button; a page has many of them.
const repair = () => {
  for (const nav of document.querySelectorAll("nav.md-code__nav")) nav.setAttribute("role", "presentation");
};
new MutationObserver(repair).observe(document.body, { childList: true, subtree: true });
repair();
