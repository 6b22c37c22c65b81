// A table of the report, and its text in the formats for pasting elsewhere. A table is
// {id, title, columns: [text], rows: [[text]], note, best: [[row, column]]}.

const isNumber = (text) => /^[~<]?[-+]?\d/.test(text) || text === "-" || text === "";

/// For each column, whether it holds numbers, which stand on the right.
function numberColumns(table) {
  return table.columns.map(
    (_, column) =>
      column > 0 &&
      table.rows.some((row) => /\d/.test(row[column])) &&
      table.rows.every((row) => isNumber(row[column]) && row[column].length < 40),
  );
}

function asMarkdown(table) {
  const escaped = (text) => text.replaceAll("|", "\\|");
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const rule = numberColumns(table).map((number) => (number ? "--:" : "---"));
  return [line(table.columns.map(escaped)), line(rule), ...table.rows.map((row) => line(row.map(escaped))), ""].join("\n");
}

/// RFC 4180.
function asCsv(table) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return [table.columns, ...table.rows].map((row) => row.map(quoted).join(",") + "\r\n").join("");
}

/// A tabular with the rules of the package booktabs.
function asLatex(table) {
  const commands = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}",
    ">": "\\textgreater{}", "|": "\\textbar{}", "±": "$\\pm$",
  };
  const escaped = (text) => text.replace(/[\\~^<>|±&%$#_{}]/g, (sign) => commands[sign] ?? `\\${sign}`);
  // A "[" at the start of a row would be read as an argument of the line break above.
  const line = (cells) => cells.map(escaped).join(" & ").replace(/^\[/, "{[}") + " \\\\";
  const columns = numberColumns(table).map((number) => (number ? "r" : "l")).join("");
  return [
    `\\begin{tabular}{${columns}}`, "\\toprule", line(table.columns), "\\midrule",
    ...table.rows.map(line), "\\bottomrule", "\\end{tabular}", "",
  ].join("\n");
}

const copyFormats = { Markdown: asMarkdown, CSV: asCsv, LaTeX: asLatex };

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers refuse the clipboard to some pages that are opened as files, but copy selected text.
    const area = element("textarea", { class: "skip", "aria-hidden": "true" });
    area.value = text;
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    if (!done) throw new Error("The browser does not let this page copy.");
  }
}

function copyButtons(table) {
  const buttons = Object.entries(copyFormats).map(([name, format]) => {
    const button = element("button", { type: "button", "data-format": name, "aria-label": `Copy the table ${table.title} as ${name}` }, name);
    button.addEventListener("click", () =>
      copyText(format(table)).then(
        () => announce(`Copied ${table.title} as ${name}.`),
        (error) => announce(error.message),
      ),
    );
    return button;
  });
  return element("div", { class: "copy" }, element("span", { "aria-hidden": "true" }, "Copy as"), ...buttons);
}

/// Texts of more characters are broken into lines.
const longText = 45;

function tableBody(table) {
  const numbers = numberColumns(table);
  const best = new Set((table.best ?? []).map(([row, column]) => `${row},${column}`));
  const cell = (text, row, column) => {
    const shown = best.has(`${row},${column}`) ? element("strong", {}, text) : text;
    if (column === 0) return element("th", { scope: "row" }, shown);
    return element("td", { class: numbers[column] ? "number" : text.length > longText ? "text" : null }, shown);
  };
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...table.columns.map((text, column) => element("th", { scope: "col", class: numbers[column] ? "number" : null }, text)))),
    element("tbody", {}, ...table.rows.map((row, index) => element("tr", {}, ...row.map((text, column) => cell(text, index, column))))),
  );
}

/// The card of a table. `id` is unique in the page.
function tableCard(table, id) {
  const lines = [table.columns, ...table.rows];
  const widths = table.columns.map((_, column) => Math.max(...lines.map((line) => Math.min(line[column].length, longText))));
  const wide = widths.reduce((sum, width) => sum + width + 2, 0) > 70;  // characters
  return element(
    "section",
    { class: wide ? "card wide" : "card", "aria-labelledby": id },
    element("div", { class: "head" }, element("h4", { id }, table.title), copyButtons(table)),
    element("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": id }, tableBody(table)),
    table.note ? element("details", {}, element("summary", {}, "What the columns mean"), element("p", { class: "note" }, table.note)) : null,
  );
}
