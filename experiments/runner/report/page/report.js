// The page: a section for each folder of results, in it a part for each topic that has figures or
// tables. The data is described in experiments/runner/report/report_page.h.

/// Headings in the order of the page, and what stands below each: figures, by the names of their files, and tables, by
/// their ids. A name also stands for several of its kind: "sweep" for "sweep-1". `pictures`: those of schedules follow.
const topics = [
  { name: "overview", title: "All cases", figures: [], tables: ["figures", "scheme_figures"] },
  { name: "speed", title: "Speed", figures: ["speed-up", "sweep-numbers", "sweep-names"], tables: ["sweep"] },
  { name: "step", title: "Time of a step", figures: ["step-time", "mfu"], tables: ["utilization"] },
  { name: "pipeline", title: "Pipelines", figures: [], tables: ["pipelines", "stages"], pictures: true },
  { name: "bytes", title: "Bytes sent", figures: ["bytes"], tables: [] },
  { name: "memory", title: "Memory", figures: ["memory"], tables: ["memory", "ranks"] },
  { name: "loss", title: "Loss", figures: ["loss-samples", "loss-seconds", "loss-bytes", "time-to-loss", "sweep-loss"],
    tables: ["time_to_loss", "held_out"] },
  { name: "staleness", title: "Staleness", figures: ["staleness"], tables: ["staleness"] },
  { name: "trust", title: "Predicted and published", figures: ["predicted-step", "predicted-memory", "published"],
    tables: ["published"] },
];

/// The members of `all` that the names mean, in the order of the names.
function namedBy(names, all, nameOf) {
  return names.flatMap((name) => all.filter((one) => nameOf(one).replace(/-\d+$/, "") === name));
}

function alertOf(lines) {
  if (!lines?.length) return null;
  return element("div", { class: "alert", role: "alert" }, element("ul", {}, ...lines.map((line) => element("li", {}, line))));
}

/// The parts of a report that are not empty, as [{id, title, cards}]; `drawn` gets what is to be drawn.
function partsOf(report, id, specs, families, drawn) {
  const figures = figuresOf(specs, report.summary, families);
  const parts = topics.map((topic) => ({
    ...topic,
    figures: namedBy(topic.figures, figures, (figure) => figure.name),
    tables: namedBy(topic.tables, report.tables, (table) => table.id),
    pictures: topic.pictures ? (report.pictures ?? []) : [],
  }));
  // Figures and tables that no topic names go into the first part.
  const taken = new Set(parts.flatMap((part) => [...part.figures, ...part.tables]));
  parts[0].figures.push(...figures.filter((figure) => !taken.has(figure)));
  parts[0].tables.push(...report.tables.filter((table) => !taken.has(table)));
  parts.push({ name: "appendix", title: "Appendix", figures: [], tables: appendixTables(report), pictures: [] });
  return parts
    .map(({ name, title, figures, tables, pictures }) => ({
      id: `${id}-${name}`,
      title,
      cards: [
        ...figures.map((figure) => {
          const card = figureCard(figure, `${id}-figure-${figure.name}`);
          drawn.push({ figure, card });
          return card;
        }),
        ...tables.map((table) => tableCard(table, `${id}-table-${table.id}`)),
        ...pictures.map((picture) => pictureCard(picture, `${id}-picture-${picture.id}`)),
      ],
    }))
    .filter((part) => part.cards.length > 0);
}

/// The card of a picture: {id, title, svg}. Its style is its own, and does not reach the page.
function pictureCard(picture, id) {
  const drawing = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": id });
  drawing.attachShadow({ mode: "open" }).innerHTML = picture.svg;
  return element(
    "section",
    { class: "card wide", "aria-labelledby": id },
    element("div", { class: "head" }, element("h4", { id }, picture.title)),
    drawing,
  );
}

function sectionOf(report, id, parts) {
  const made = report.made ? `, begun ${report.made.replace("T", " ").replace("Z", " UTC")}` : "";
  return element(
    "section",
    { class: "report", "aria-labelledby": id },
    element("h2", { id, tabindex: "-1" }, report.name),
    element("p", { class: "soft" }, `${report.folder}${made}`),
    alertOf(report.complaints),
    ...(report.remarks ?? []).map((line) => element("p", { class: "remark" }, line)),
    ...parts.flatMap((part) => [element("h3", { id: part.id, tabindex: "-1" }, part.title), element("div", { class: "cards" }, ...part.cards)]),
  );
}

function contentsOf(report, id, parts) {
  const links = parts.map((part) => element("li", {}, element("a", { href: `#${part.id}` }, part.title)));
  return element("li", {}, element("a", { href: `#${id}` }, report.name), element("ul", {}, ...links));
}

async function makePage() {
  const data = embedded("report-data"), specs = embedded("report-figures"), theme = embedded("report-theme");
  const families = familiesOf(...data.reports.map((report) => report.summary));
  const main = document.getElementById("results"), contents = document.getElementById("contents");
  const names = data.reports.map((report) => report.name).join(", ");
  document.title = `${names} - Ringside report`;
  document.getElementById("made").textContent = `${names}. Made by ${data.program.name} ${data.program.commit}.`;
  const notRead = alertOf(data.not_read);
  if (notRead) main.append(notRead);

  const drawn = [];
  data.reports.forEach((report, index) => {
    const id = `report-${index + 1}`;
    const parts = partsOf(report, id, specs, families, drawn);
    main.append(sectionOf(report, id, parts));
    contents.append(contentsOf(report, id, parts));
  });
  addColours();
  unfoldForPrint();
  const drawings = drawn.map(({ figure, card }) => new Drawing(figure, card, theme));
  addSchemes(families, (hidden) => drawings.forEach((drawing) => drawing.hide(hidden)));
  for (const drawing of drawings) {
    await drawing.draw();
    drawing.follow();
  }
  performance.mark("all figures drawn");
  document.body.dataset.drawn = String(drawings.length);
}

makePage();
