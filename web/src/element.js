// Elements of the page, from plain calls: element('p', {class: 'note'}, 'text', child).
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'style') Object.entries(value).forEach(([property, text]) => made.style.setProperty(property, text));
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  return append(made, ...children);
}

export function append(parent, ...children) {
  for (const child of children.flat()) if (child != null && child !== false) parent.append(child);
  return parent;
}

/** A table that scrolls by itself where the window is narrow, and can be reached by keyboard. */
export function table(caption, head, rows, more = {}) {
  const cell = (value, index) => {
    const content = value && value.nodeType ? value : String(value);
    return index === 0 ? element('th', {scope: 'row'}, content) : element('td', {}, content);
  };
  return element('div', {class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0},
    element('table', more,
      element('caption', {}, caption),
      element('thead', {}, element('tr', {}, ...head.map((name) => element('th', {scope: 'col'}, name)))),
      element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map(cell))))));
}

/** A line under a chart or a table that says which file its numbers come from. */
export const origin = (...parts) => element('p', {class: 'origin'}, 'From ', ...parts);

/** A swatch of colour and a name, for legends; the name carries the meaning. */
export const swatch = (colour, name) =>
  element('span', {class: 'key'}, element('span', {class: 'swatch', style: {background: colour}, 'aria-hidden': 'true'}), name);
