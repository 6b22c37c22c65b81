// Controls of a reader: the colours of the page, and the schemes that the figures show.

/// Symbols of text for those of the figures (range.symbol of the theme), and their number of colours.
const symbols = ["●", "■", "▲", "✚", "◆", "▶", "▼"];
const colours = 8;

function addColours() {
  const choice = document.getElementById("colours");
  choice.addEventListener("change", () => {
    if (choice.value) document.documentElement.dataset.theme = choice.value;
    else delete document.documentElement.dataset.theme;
  });
}

/// `changed` gets the families that are hidden.
function addSchemes(families, changed) {
  const place = document.getElementById("schemes");
  const boxes = families.map((family, index) => {
    const box = element("input", { type: "checkbox", checked: true });
    const symbol = element(
      "span",
      { class: "symbol", "aria-hidden": "true", style: `color: var(--series-${(index % colours) + 1})` },
      symbols[index % symbols.length],
    );
    place.append(element("label", {}, box, symbol, element("span", {}, family)));
    return box;
  });
  const tell = () => changed(families.filter((_, index) => !boxes[index].checked));
  const setAll = (checked) => {
    for (const box of boxes) box.checked = checked;
    tell();
  };
  for (const box of boxes) box.addEventListener("change", tell);
  document.getElementById("show-all").addEventListener("click", () => setAll(true));
  document.getElementById("hide-all").addEventListener("click", () => setAll(false));
}

/// Unfolds all texts for printing.
function unfoldForPrint() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
}
