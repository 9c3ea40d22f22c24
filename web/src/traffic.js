// What moves: bytes per collective in a step, and over each link in the run.
import {append, element, swatch, table} from './element.js';
import {bytes, count, seconds, trimmed} from './format.js';
import {verbColour} from './colours.js';
import {schemeMenu} from './choice.js';

const inline = (value, most, colour) => element('span', {class: 'inline-bar', 'aria-hidden': 'true',
  style: {width: `${most > 0 ? 100 * value / most : 0}%`, background: colour}});
const withBar = (text, value, most, colour) => append(element('span', {class: 'with-bar'}), text, inline(value, most, colour));

function collectives({rows}) {
  const most = Math.max(...rows.map((row) => row.sent_bytes), 0);
  return table('Collectives of a step', ['Collective', 'How many', 'Whole buffers', 'Sent by this rank', 'Time in them'],
    rows.map((row) => {
      const name = row.payload === 'control' ? `${row.verb} (control)` : row.verb;
      return [swatch(verbColour(name), name), trimmed(row.count, 2), bytes(row.buffer_bytes),
        withBar(bytes(row.sent_bytes), row.sent_bytes, most, verbColour(name)), seconds(row.seconds)];
    }));
}

function links({shown, count: all, rest_bytes: rest}, steps) {
  if (!all) return element('p', {}, 'No links: this backend moves bytes through memory.');
  const most = shown[0][1];
  const rows = shown.map(([name, moved]) => [name, withBar(bytes(moved), moved, most, 'var(--accent)'), bytes(moved / Math.max(1, steps))]);
  if (all > shown.length) rows.push([`${count(all - shown.length)} more`, bytes(rest), bytes(rest / Math.max(1, steps))]);
  return table(`Links, the busiest first (${count(all)} in all)`, ['Link', 'Bytes in the run', 'Bytes per step'], rows);
}

export function trafficSection(summary, schemes) {
  const place = element('div', {class: 'pair'}), note = element('p', {class: 'origin'});
  const menu = schemeMenu(schemes, (index) => {
    const {scheme, collectives: moved, links: loads} = schemes[index];
    place.replaceChildren(collectives(moved), links(loads, summary.results[index].steps));
    note.textContent = `From ${scheme}/collectives.csv (rank ${moved.rank ?? '–'}, mean over the steps) and ${scheme}/links.csv (whole run, ` +
      'every rank). Control: norms and overflow flags, which do not count as traffic.';
  });
  return append(element('div', {}), element('div', {class: 'controls'}, menu), place, note);
}
