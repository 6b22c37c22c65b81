// Figures are Vega-Lite specs, one a file, which shape their data by themselves. Here they only get the rows of a
// summary. A spec's `usermeta` has
//   data    the list of the summary that it draws, which is also the name of its dataset
//   fields  members that a row must have to be drawn; without such rows the figure is left out
//   where   members that a row must have with these values
//   each    true: a figure for each row
//   wide    true: the figure is as wide as the page
// Its parameters are lists of families: `families` of the whole page, so that a family has the same colour and symbol in
// all figures; `drawn` of the rows of this figure, for the legend; and `hidden`, those that the reader hides.
// scripts/report-figures does the same for papers.

function valueAt(row, path) {
  return path.split(".").reduce((value, key) => value?.[key], row);
}

function isThere(value) {
  return value != null && !(Array.isArray(value) && value.length === 0);
}

/// The families of summaries, in the order of their cases.
function familiesOf(...summaries) {
  return [...new Set(summaries.flatMap((summary) => summary.cases.map((one) => one.family)))];
}

/// The families of a figure's rows: rows of cases and curves have one, those of sweeps one in each line.
function familiesIn(rows) {
  return [...new Set(rows.flatMap((row) => row.lines?.map((line) => line.family) ?? [row.family]))];
}

/// The figures that a summary has data for, as [{name, title, spec}].
function figuresOf(specs, summary, families) {
  return Object.entries(specs).flatMap(([name, spec]) => {
    const { data, fields, where = {}, each = false } = spec.usermeta;
    const rows = (summary[data] ?? []).filter(
      (row) =>
        Object.entries(where).every(([key, value]) => row[key] === value) &&
        fields.every((field) => isThere(valueAt(row, field))),
    );
    if (rows.length === 0) return [];
    return (each ? rows.map((row) => [row]) : [rows]).map((group, index) => ({
      name: each ? `${name}-${index + 1}` : name,
      title: each ? `${spec.title}: ${group[0].key}, ${group[0].fixed}` : spec.title,
      spec: {
        ...spec,
        datasets: { [data]: group },
        params: spec.params.map((one) => {
          const lists = { families, drawn: familiesIn(group) };
          return one.name in lists ? { ...one, value: lists[one.name] } : one;
        }),
      },
    }));
  });
}

/// The card of a figure, empty until it is drawn.
function figureCard(figure, id) {
  return element(
    "figure",
    { class: figure.spec.usermeta.wide ? "card wide" : "card", "aria-labelledby": id },
    element("h4", { id }, figure.title),
    element("div", { class: "plot" }),
    element("figcaption", {}, figure.spec.description),
  );
}

/// A figure in its card, which is part of the page. The drawing is as wide as the card, and is made anew when the
/// card's width changes.
class Drawing {
  #figure;
  #place;
  #theme;
  #view = null;
  #width = 0;
  #hidden = [];

  constructor(figure, card, theme) {
    this.#figure = figure;
    this.#place = card.querySelector(".plot");
    this.#theme = theme;
  }

  /// Title and description stand in the card; screen readers hear the title as the name of the plot.
  async draw() {
    const width = (this.#width = this.#place.clientWidth);
    const theme = this.#theme;
    const config = {
      ...theme,
      axisBand: { ...theme.axisBand, labelLimit: Math.min(theme.axisBand.labelLimit, 0.45 * width) },
      legend: { ...theme.legend, columns: Math.max(1, Math.floor(width / 160)) },
    };
    const { title, ...spec } = this.#figure.spec;
    this.#view?.finalize();
    const { view } = await vegaEmbed(this.#place, { ...spec, width, description: this.#figure.title }, {
      mode: "vega-lite", renderer: "svg", actions: false, config, defaultStyle: false,
      tooltip: { disableDefaultStyle: true },
      // Vega-Lite would say the same to specs with a width of "container", but warns of those whose height follows
      // from the number of rows.
      patch: (compiled) => ({ ...compiled, autosize: { type: "fit-x", contains: "padding" } }),
    });
    this.#view = view;
    if (this.#hidden.length > 0) await this.hide(this.#hidden);
  }

  hide(families) {
    this.#hidden = families;
    return this.#view?.signal("hidden", families).runAsync();
  }

  follow() {
    let waiting;
    new ResizeObserver(() => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.#place.clientWidth !== this.#width && this.draw(), 150);
    }).observe(this.#place);
  }
}
