// The timeline's section: which scheme and rank, the search, the buttons, what is under the pointer, and the same as a table.
import {append, element, swatch, table} from './element.js';
import {bytes, seconds} from './format.js';
import {verbColour} from './colours.js';
import {schemeMenu} from './choice.js';
import {Timeline} from './timeline.js';

const mostRows = 200;
const unitText = (unit) => (unit < 0 ? '–' : String(unit));

/** "5" or "u5": unit 5; "gather": verbs with that in their name; both: both. */
function matcher(text) {
  const words = text.toLowerCase().split(/[\s,]+/).filter((word) => word && word !== 'unit');
  const units = words.map((word) => /^u?(\d+)$/.exec(word)?.[1]).filter(Boolean).map(Number);
  const verbs = words.filter((word) => !/^u?\d+$/.test(word));
  return ({verb, unit}) => (!units.length || units.includes(unit)) && verbs.every((word) => verb.includes(word));
}

function words(slice) {
  const what = `${slice.verb}${slice.unit < 0 ? '' : `, unit ${slice.unit}`}`;
  const more = slice.sent > 0 ? `, ${bytes(slice.sent)} sent` : slice.ops > 1 ? `, ${slice.ops} operations` : '';
  return `${what}: ${seconds(slice.length / 1e9)}, from ${seconds(slice.begin / 1e9)}${more} (${slice.row})`;
}

export function timelineSection(schemes) {
  let timelineData, sliceRows = [];
  const tip = element('div', {class: 'tip', hidden: true});
  const status = element('p', {class: 'status', role: 'status'});
  const timeline = new Timeline({label: 'Timeline of the last step; the table below has the same', onHover: (slice, x, y) => {
    tip.hidden = !slice;
    if (!slice) return;
    tip.textContent = words(slice);
    status.textContent = tip.textContent;
    tip.style.left = `${Math.min(x + 12, Math.max(0, timeline.place.clientWidth - 240))}px`;
    tip.style.top = `${y + 16}px`;
  }, onView: () => fillTable()});
  append(timeline.place, tip);

  const ranks = element('select', {onchange: () => show()});
  const search = element('input', {type: 'search', placeholder: 'unit or verb: 5, gather 5', oninput: () => {
    const matches = matcher(search.value);
    timeline.search(matches);
    const found = sliceRows.flatMap(({slices}) => slices.filter(matches)).length;
    status.textContent = search.value ? `${found} slice${found === 1 ? '' : 's'} found; n and p go from one to the next.` : '';
    fillTable();
  }, onkeydown: (event) => { if (event.key === 'Enter') timeline.announce(event.shiftKey ? -1 : 1); }});
  const button = (text, label, act) => element('button', {type: 'button', 'aria-label': label, onclick: act}, text);

  const tablePlace = element('div', {});
  const details = element('details', {ontoggle: () => fillTable()}, element('summary', {}, 'The stretch that is shown, as a table'), tablePlace);
  function fillTable() {
    if (!details.open) return;
    const matches = matcher(search.value);
    const shown = sliceRows.flatMap(({name, slices}) => slices.filter((slice) => matches(slice) && slice.begin < timeline.end &&
      slice.begin + slice.length > timeline.begin).map((slice) => ({...slice, row: name}))).sort((a, b) => a.begin - b.begin);
    tablePlace.replaceChildren(table(`${shown.length} slices` + (shown.length > mostRows ? `, the first ${mostRows} of them` : ''),
      ['Verb', 'Unit', 'Stream', 'Begin', 'Length', 'Operations', 'Sent'], shown.slice(0, mostRows).map((slice) => [slice.verb,
        unitText(slice.unit), slice.row, seconds(slice.begin / 1e9), seconds(slice.length / 1e9), slice.ops, slice.sent ? bytes(slice.sent) : '–'])));
  }

  const legend = element('p', {class: 'legend'}), note = element('p', {class: 'origin'});
  function show() {
    const chosen = ranks.value === 'all' ? timelineData.ranks : timelineData.ranks.filter(({rank}) => String(rank) === ranks.value);
    sliceRows = chosen.flatMap(({rank, streams}) => Object.entries(streams ?? {}).map(([stream, slices]) => ({
      name: chosen.length > 1 ? `${rank} ${stream}` : stream,
      slices: slices.map(([begin, length, kind, unit, ops, sent]) => ({begin, length, verb: timelineData.names[kind], unit, ops, sent})),
    })));
    timeline.show(sliceRows, timelineData.length);
  }

  const menu = schemeMenu(schemes, (index) => {
    const {scheme, timeline: data} = schemes[index];
    timelineData = data;
    const all = data.times?.length ?? 0;
    ranks.replaceChildren(...data.ranks.map(({rank}) => element('option', {value: rank}, `rank ${rank}`)),
      data.ranks.length > 1 && element('option', {value: 'all'}, `these ${data.ranks.length} ranks`) || '');
    legend.replaceChildren(...data.names.map((name) => swatch(verbColour(name), name)));
    note.textContent = `From ${scheme}/timeline.csv, step ${data.step}` + (all > data.ranks.length
      ? `; ${data.ranks.length} of the ${all} recorded ranks: the slowest, the fastest and some between. The file has all.`
      : '. For every operation by name, open trace.json in Perfetto.');
    show();
  });
  queueMicrotask(() => timeline.draw());
  return append(element('div', {}),
    element('div', {class: 'controls'}, menu, element('label', {class: 'menu'}, 'Rank ', ranks),
      element('label', {class: 'menu'}, 'Search ', search),
      element('span', {class: 'buttons'}, button('+', 'Zoom in', () => timeline.zoom(0.6)), button('−', 'Zoom out', () => timeline.zoom(1 / 0.6)),
        button('‹', 'Earlier', () => timeline.pan(-0.25)), button('›', 'Later', () => timeline.pan(0.25)),
        button('All', 'Show the whole step', () => timeline.view(0, timeline.length)))),
    legend, timeline.place, status,
    element('p', {class: 'hint', id: 'timeline-keys'}, 'Wheel or + and − zoom, drag or arrow keys pan, Home shows all, n and p go to the next and ' +
      'previous slice that the search finds.'),
    details, note);
}
