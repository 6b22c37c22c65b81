// The appendix: tables of the configuration, the cases and the environment.

/// [["model.width", "128"], ...] of nested objects. A list is one value.
function settings(object, before = "") {
  return Object.entries(object ?? {}).flatMap(([key, value]) => {
    const name = before + key;
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return settings(value, `${name}.`);
    return [[name, plainText(value)]];
  });
}

function plainText(value) {
  if (value === null || value === undefined) return "-";
  if (Array.isArray(value)) return value.map(plainText).join(", ");
  if (typeof value === "object") return settings(value).map(([key, text]) => `${key}=${text}`).join(", ");
  return String(value);
}

function settingsTable(id, title, object) {
  return { id, title, columns: ["key", "value"], rows: settings(object) };
}

/// One line for each case: dtypes, hosts and the rest of its setup. A column with "-" in all cases is left out.
function setupTable(cases) {
  const lines = cases.filter((one) => one.setup).map((one) => {
    const { model, data, optimizer, ...setup } = one.setup;  // those stand in the configuration
    return new Map([["scheme", one.label], ["world", String(one.world)], ["device", one.device],
                    ...Object.entries(setup).flatMap(([key, value]) => key === "dtypes" ? settings(value, "dtype of ") : [[key, plainText(value) || "-"]])]);
  });
  const columns = [...new Set(lines.flatMap((line) => [...line.keys()]))]
    .filter((column) => lines.some((line) => (line.get(column) ?? "-") !== "-"));
  return { id: "setup", title: "Cases, dtypes and hosts", columns: columns.map((column) => column.replaceAll("_", " ")),
           rows: lines.map((line) => columns.map((column) => line.get(column) ?? "-")) };
}

/// The tables of the appendix of a report that have a line.
function appendixTables(report) {
  return [
    settingsTable("configuration", "Configuration of all runs", report.configuration),
    settingsTable("environment", "Environment", report.environment),
    setupTable(report.summary.cases),
  ].filter((table) => table.rows.length > 0);
}
