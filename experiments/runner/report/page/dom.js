// Elements of the page.

/// An element with attributes (those that are null or false are left out) and children: elements or texts.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value != null && value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children.filter((child) => child != null));
  return made;
}

/// The object that the JSON script with this id holds.
function embedded(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/// Shows a text for a few seconds in the line that screen readers read out.
function announce(text) {
  const line = document.getElementById("status");
  line.textContent = text;
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => (line.textContent = ""), 4000);
}
