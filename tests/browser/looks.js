// Functions that measure how a page looks. Each returns what is wrong as sentences.
({
  // The baselines of the first lines of text in the cells of a row, which differ by at most half a
  // pixel. A text's baseline is the lower edge of an empty inline block before it.
  baselines() {
    const problems = [];
    const isSeen = ({ data, parentElement }) => data.trim() && !parentElement.closest(".unseen, title, option") && parentElement.checkVisibility();
    const firstText = (cell) => {
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      let text = walker.nextNode();
      while (text && !isSeen(text)) text = walker.nextNode();
      return text;
    };
    const marked = (text) => {
      const line = document.createElement("span");
      const mark = document.createElement("span");
      mark.style.cssText = "display: inline-block; width: 0; height: 0";
      text.before(line);
      line.append(mark, text);
      return [mark, text];
    };
    const rows = [...document.querySelectorAll("tbody tr")].filter((row) => row.checkVisibility());
    // first read, then change, then measure the whole page: a layout after each change takes half a second
    const texts = rows.map((row) => [...row.cells].map(firstText).filter(Boolean));
    const places = texts.map((row) => row.map(marked)).map((row) => row.map(([mark, text]) => [mark.getBoundingClientRect().bottom, text.data.trim()]));
    for (const found of places) {
      const heights = found.map(([height]) => height);
      const gap = Math.max(...heights) - Math.min(...heights);
      if (gap > 0.5) problems.push(`${gap.toFixed(1)} px: ${found.map(([height, text]) => `${height.toFixed(1)} ${text.slice(0, 20)}`).join(" | ")}`);
    }
    for (const text of texts.flat()) text.parentElement.replaceWith(text);
    return problems;
  },

  // The sizes of text in charts, and whether labels overlap.
  charts() {
    const problems = [];
    for (const chart of document.querySelectorAll(".chart")) {
      const labels = [...chart.querySelectorAll("text, .levels span")].filter((each) => each.checkVisibility());
      if (!labels.length) problems.push("a chart has no labels");
      for (const label of labels) {
        const scale = label.getScreenCTM ? label.getScreenCTM().a : 1;
        const size = parseFloat(getComputedStyle(label).fontSize) * scale;
        if (size < 11) problems.push(`${size.toFixed(1)} px: ${label.textContent}`);
      }
      const places = labels.filter((each) => each.localName === "text").map((each) => each.getBoundingClientRect());
      places.forEach((place, index) => { if (index && place.left < places[index - 1].right + 2) problems.push("labels overlap"); });
    }
    return problems;
  },

  // Whether the rows of tiles are full: the last one ends where the first one does.
  tiles() {
    const problems = [];
    for (const list of document.querySelectorAll(".tiles")) {
      const rows = Map.groupBy([...list.children], (each) => Math.round(each.getBoundingClientRect().top));
      const ends = [...rows.values()].map((row) => Math.max(...row.map((each) => each.getBoundingClientRect().right)));
      if (Math.max(...ends) - Math.min(...ends) > 1) problems.push(`rows of ${[...rows.values()].map((row) => row.length).join(" + ")} tiles`);
    }
    return problems;
  },

  // The tables of which a part is only seen by scrolling sideways.
  sideways() {
    return [...document.querySelectorAll(".scroll")]
      .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
      .map((each) => `${each.getAttribute("aria-label")}: ${each.scrollWidth} in ${each.clientWidth} px`);
  },

  // On a phone: rows are cards that fit, their cells have names, and buttons suit fingers.
  cards() {
    const problems = [];
    for (const row of document.querySelectorAll(".cards tbody tr")) {
      if (!row.checkVisibility()) continue;
      const box = row.getBoundingClientRect();
      if (box.left < 0 || box.right > innerWidth) problems.push(`a card is wider than the page: ${row.textContent.trim().slice(0, 40)}`);
      if (row.getAttribute("role") !== "row") problems.push("a card is no row");
      for (const cell of row.cells) {
        if (!["cell", "rowheader"].includes(cell.getAttribute("role"))) problems.push("a part of a card is no cell");
        const name = getComputedStyle(cell, "::before").content;
        if (cell.dataset.label && !name.includes(cell.dataset.label)) problems.push(`a cell does not show the name of its column: ${name}`);
      }
      const title = row.querySelector("th a");
      if (title && parseFloat(getComputedStyle(title, "::after").height) < 40) problems.push(`a card is low: ${title.textContent}`);
    }
    for (const control of document.querySelectorAll("main :is(button, .button, input:not([type=checkbox], [type=radio], [type=hidden]), select, textarea)")) {
      const { height } = control.getBoundingClientRect();
      if (height && height < 40 && !control.closest(".code, .chart, .unseen")) problems.push(`${height} px high: ${control.outerHTML.slice(0, 100)}`);
    }
    return problems;
  },
})
