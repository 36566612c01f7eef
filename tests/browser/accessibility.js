// What a page does wrong for those who do not see it, or do not use a mouse: a list of sentences.
// Checks what a machine can check of WCAG 2.2, level AA; the numbers are those of its criteria.
() => {
  const problems = [];
  const say = (criterion, what, element) =>
    problems.push(`${criterion} ${what}${element ? `: ${element.outerHTML.slice(0, 140).replace(/\s+/g, " ")}` : ""}`);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const words = (text) => (text || "").replace(/\s+/g, " ").trim();
  const said = (ids) => words(ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent || "").join(" "));

  const name = (element) => {
    if (element.hasAttribute("aria-labelledby")) return said(element.getAttribute("aria-labelledby"));
    if (words(element.getAttribute("aria-label"))) return words(element.getAttribute("aria-label"));
    if (element.labels?.length) return words([...element.labels].map((label) => label.textContent).join(" "));
    if (element.localName === "img") return words(element.alt);
    const images = all("img[alt]", element).map((image) => image.alt).join(" ");
    return words(element.textContent) || words(images) || words(element.getAttribute("title"));
  };

  // -- the document
  if (!document.documentElement.lang) say("3.1.1", "the page has no language");
  if (!words(document.title)) say("2.4.2", "the page has no title");
  if (all("main").length !== 1) say("1.3.1", "there has to be one main");
  if (all("h1").filter(shown).length !== 1) say("1.3.1", `there are ${all("h1").filter(shown).length} h1`);
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6").filter(shown)) {
    const next = Number(heading.localName[1]);
    if (next > level + 1) say("1.3.1", `a heading skips a level (h${level} to h${next})`, heading);
    level = next;
  }
  const ids = new Set();
  for (const element of all("[id]")) {
    if (ids.has(element.id)) say("4.1.2", "an id is there twice", element);
    ids.add(element.id);
  }
  const menus = all("nav").map(name);
  if (menus.length > 1 && new Set(menus).size < menus.length) say("1.3.1", `navs are named alike (${menus})`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
    for (const element of all(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(/\s+/)) {
        if (!document.getElementById(id)) say("1.3.1", `${attribute} points to nothing`, element);
      }
    }
  }
  const landmarks = "header, nav, main, footer, aside, .skip";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    if (words(walker.currentNode.data) && shown(walker.currentNode.parentElement)) texts.push(walker.currentNode);
  }
  for (const text of texts) {
    if (!text.parentElement.closest(landmarks)) say("1.3.1", "text is outside of the landmarks", text.parentElement);
  }

  // -- controls
  const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  for (const element of all(controls).filter(shown)) {
    if (!name(element)) say("4.1.2", "a control has no name", element);
    if (element.tabIndex > 0) say("2.4.3", "a control is out of order", element);
    if (element.closest("[aria-hidden='true']")) say("4.1.2", "a control is hidden from some", element);
    const box = element.getBoundingClientRect();
    const target = element.matches("button, select, textarea, .button, input:not([type=checkbox], [type=radio])");
    if (target && (box.width < 24 || box.height < 24)) say("2.5.8", "a target is smaller than 24 pixels", element);
  }
  for (const image of all("img:not([alt]), svg:not([aria-hidden]):not([role=img])")) say("1.1.1", "an image says nothing", image);
  for (const image of all("[role=img]")) if (!name(image)) say("1.1.1", "an image has no name", image);
  for (const group of all("fieldset")) if (!group.querySelector("legend")) say("1.3.1", "a fieldset has no legend", group);

  // -- tables
  for (const table of all("table")) {
    if (!words(table.caption?.textContent)) say("1.3.1", "a table has no caption", table);
    for (const cell of all("th", table)) {
      if (!cell.scope) say("1.3.1", "a header cell has no scope", cell);
      if (!words(cell.textContent)) say("1.3.1", "a header cell says nothing", cell);
    }
    for (const row of all("tbody tr", table)) if (!row.querySelector("th")) say("1.3.1", "a row has no header", row);
    const width = table.tHead?.rows[0]?.cells.length;
    for (const row of table.tBodies[0]?.rows || []) if (row.cells.length !== width) say("1.3.1", "a row has another length than the head", row);
  }

  // -- what scrolls can be scrolled by keys, and the page itself does not scroll sideways
  for (const element of all("*").filter(shown)) {
    const style = getComputedStyle(element);
    const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
    const over = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
    if (scrolls && over && element.tabIndex < 0 && !element.querySelector(controls)) say("2.1.1", "keys cannot scroll it", element);
  }
  if (document.documentElement.scrollWidth > innerWidth) say("1.4.10", "the page scrolls sideways");

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
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (color) => {
    const [r, g, b] = color.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const judged = new Set();
  for (const { parentElement: element } of texts) {
    if (judged.has(element) || element.closest("option, :disabled, title, desc, .unseen, .skip")) continue;
    judged.add(element);
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const behind = ground(element);
    const found = contrast(over(rgba(element.closest("svg") ? style.fill : style.color), behind), behind);
    if (found < needed) say("1.4.3", `the contrast of text is ${found.toFixed(2)}`, element);
  }
  for (const element of all("input:not([type=hidden], [type=checkbox]), select, textarea").filter(shown)) {
    const behind = ground(element.parentElement);
    const found = contrast(over(rgba(getComputedStyle(element).borderTopColor), behind), behind);
    if (found < 3) say("1.4.11", `the contrast of a field's edge is ${found.toFixed(2)}`, element);
  }
  return problems;
}
