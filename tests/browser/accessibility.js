// Returns a page's accessibility problems as sentences. It checks what a machine can check of WCAG
// 2.2, level AA; the numbers are those of its criteria.
() => {
  const problems = [];
  const report = (criterion, what, element) =>
    problems.push(`${criterion} ${what}${element ? `: ${element.outerHTML.slice(0, 140).replace(/\s+/g, " ")}` : ""}`);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const isVisible = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const trimmed = (text) => (text || "").replace(/\s+/g, " ").trim();
  const textOf = (ids) => trimmed(ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent || "").join(" "));

  const name = (element) => {
    if (element.hasAttribute("aria-labelledby")) return textOf(element.getAttribute("aria-labelledby"));
    if (trimmed(element.getAttribute("aria-label"))) return trimmed(element.getAttribute("aria-label"));
    if (element.labels?.length) return trimmed([...element.labels].map((label) => label.textContent).join(" "));
    if (element.localName === "img") return trimmed(element.alt);
    const images = all("img[alt]", element).map((image) => image.alt).join(" ");
    return trimmed(element.textContent) || trimmed(images) || trimmed(element.getAttribute("title"));
  };

  // -- the document
  if (!document.documentElement.lang) report("3.1.1", "the page has no language");
  if (!trimmed(document.title)) report("2.4.2", "the page has no title");
  if (all("main").length !== 1) report("1.3.1", "the page needs exactly one main");
  if (all("h1").filter(isVisible).length !== 1) report("1.3.1", `there are ${all("h1").filter(isVisible).length} h1`);
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6").filter(isVisible)) {
    const next = Number(heading.localName[1]);
    if (next > level + 1) report("1.3.1", `a heading skips a level (h${level} to h${next})`, heading);
    level = next;
  }
  const ids = new Set();
  for (const element of all("[id]")) {
    if (ids.has(element.id)) report("4.1.2", "an id is not unique", element);
    ids.add(element.id);
  }
  for (const landmark of ["nav", "section[aria-label], section[aria-labelledby], [role=region]"]) {
    const names = all(landmark).filter(isVisible).map(name);
    const repeated = names.filter((each, index) => names.indexOf(each) < index);
    if (repeated.length) report("1.3.1", `landmarks have the same name (${repeated})`);
  }
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
    for (const element of all(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(/\s+/)) {
        if (!document.getElementById(id)) report("1.3.1", `${attribute} points to nothing`, element);
      }
    }
  }
  const landmarks = "header, nav, main, footer, aside, .skip";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    if (trimmed(walker.currentNode.data) && isVisible(walker.currentNode.parentElement)) texts.push(walker.currentNode);
  }
  for (const text of texts) {
    if (!text.parentElement.closest(landmarks)) report("1.3.1", "text is outside the landmarks", text.parentElement);
  }

  // -- controls
  const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  for (const element of all(controls).filter(isVisible)) {
    if (!name(element)) report("4.1.2", "a control has no name", element);
    if (element.tabIndex > 0) report("2.4.3", "a control has a positive tabindex", element);
    if (element.closest("[aria-hidden='true']")) report("4.1.2", "a control is hidden from screen readers", element);
    const box = element.getBoundingClientRect();
    const target = element.matches("button, select, textarea, .button, input:not([type=checkbox], [type=radio])");
    if (target && (box.width < 24 || box.height < 24)) report("2.5.8", "a target is smaller than 24 pixels", element);
  }
  for (const image of all("img:not([alt]), svg:not([aria-hidden]):not([role=img], [role=group])")) report("1.1.1", "an image has no alternative text", image);
  for (const image of all("[role=img], svg[role=group]")) if (!name(image)) report("1.1.1", "an image has no name", image);
  for (const group of all("fieldset")) if (!group.querySelector("legend")) report("1.3.1", "a fieldset has no legend", group);

  // -- tables
  for (const table of all("table")) {
    if (!trimmed(table.caption?.textContent)) report("1.3.1", "a table has no caption", table);
    for (const cell of all("th", table)) {
      if (!cell.scope) report("1.3.1", "a header cell has no scope", cell);
      if (!trimmed(cell.textContent)) report("1.3.1", "a header cell is empty", cell);
    }
    for (const row of all("tbody tr", table)) if (!row.querySelector("th")) report("1.3.1", "a row has no header", row);
    const width = table.tHead?.rows[0]?.cells.length;
    for (const row of table.tBodies[0]?.rows || []) if (row.cells.length !== width) report("1.3.1", "a row and the head differ in length", row);
  }

  // -- the keyboard can scroll every scrolling element, and the page does not scroll sideways
  const scrolls = ({ overflowX, overflowY }) => /auto|scroll/.test(overflowX + overflowY);
  for (const element of all("*").filter((each) => scrolls(getComputedStyle(each))).filter(isVisible)) {
    const over = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
    if (over && element.tabIndex < 0 && !element.querySelector(controls)) report("2.1.1", "the keyboard cannot scroll an element", element);
  }
  if (document.documentElement.scrollWidth > innerWidth) report("1.4.10", "the page scrolls sideways");

  // -- contrast
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const rgba = (color) => {
    if (!colours.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      colours.set(color, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return colours.get(color);
  };
  const over = ([r, g, b, a], [R, G, B]) => [[r, R], [g, G], [b, B]].map(([x, X]) => (x * a + X * (255 - a)) / 255);
  const once = (compute) => {
    const known = new Map();
    return (element) => {
      if (!known.has(element)) known.set(element, compute(element));
      return known.get(element);
    };
  };
  const backgroundOf = once((element) => (element ? over(rgba(getComputedStyle(element).backgroundColor), backgroundOf(element.parentElement)) : [255, 255, 255]));
  const opacityOf = once((element) => (element ? Number(getComputedStyle(element).opacity) * opacityOf(element.parentElement) : 1));
  const luminance = (color) => {
    const [r, g, b] = color.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const checked = new Set();
  for (const { parentElement: element } of texts) {
    if (checked.has(element) || element.closest("option, :disabled, title, desc, .unseen, .skip")) continue;
    checked.add(element);
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const required = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const background = backgroundOf(element);
    const [r, g, b, a] = rgba(element.closest("svg") ? style.fill : style.color);
    const found = contrast(over([r, g, b, a * opacityOf(element)], background), background);
    if (found < required) report("1.4.3", `the contrast of text is ${found.toFixed(2)}`, element);
  }
  for (const element of all("input:not([type=hidden], :checked, .unseen), select, textarea").filter(isVisible)) {
    const background = backgroundOf(element.parentElement);
    const found = contrast(over(rgba(getComputedStyle(element).borderTopColor), background), background);
    if (found < 3) report("1.4.11", `the contrast of a field's border is ${found.toFixed(2)}`, element);
  }
  return problems;
}
