// Where a step's time goes: computing, communication hidden behind it, exposed communication, idle; and the ranks' last steps.
import {append, element, origin, swatch, table} from './element.js';
import {percent, seconds} from './format.js';
import {schemeColour, timeColour} from './colours.js';
import {linePlot} from './plot.js';

const kinds = {
  compute: 'computing alone',
  hidden: 'computing, and a collective runs behind it (hidden)',
  exposed: 'a collective runs, nothing is computed (exposed)',
  idle: 'neither',
};

function shares(result) {
  const step = result.step_seconds, compute = result.compute_seconds ?? 0, hidden = Math.min(result.hidden_comm_seconds ?? 0, compute);
  const exposed = result.exposed_comm_seconds ?? 0;
  return {compute: compute - hidden, hidden, exposed, idle: Math.max(0, step - compute - exposed)};
}

function bar(result, longest) {
  const parts = shares(result), sum = Object.values(parts).reduce((a, b) => a + b, 0);
  return element('div', {class: 'bar', style: {width: `${100 * result.step_seconds / longest}%`}, 'aria-hidden': 'true'},
    ...Object.keys(kinds).map((kind) => element('span', {title: `${kinds[kind]}: ${seconds(parts[kind])}`,
      style: {background: timeColour(kind), width: `${100 * parts[kind] / (sum || 1)}%`}})));
}

function ranksPlot(schemes) {
  const many = schemes.filter(({timeline}) => (timeline.times?.length ?? 0) > 1);
  if (!many.length) return null;
  const ranks = many[0].timeline.times.map(([rank]) => rank);
  const part = element('details', {open: ranks.length > 8}, element('summary', {}, `The last step of ${ranks.length} ranks`));
  append(part,
    linePlot({label: 'Length of the last step by rank', x: ranks, xLabel: 'rank', value: seconds, series: many.map(({scheme, timeline}) =>
      ({label: scheme, colour: schemeColour(scheme), values: timeline.times.map(([, length]) => length / 1e9)}))}),
    origin('<scheme>/timeline.csv: from the first slice of a rank’s last step to the end of its last one.'));
  return part;
}

export function timeBars(results) {
  const longest = Math.max(...results.map((r) => r.step_seconds), 1e-30);
  return append(element('div', {}),
    element('p', {class: 'legend'}, ...Object.entries(kinds).map(([kind, name]) => swatch(timeColour(kind), name))),
    element('div', {class: 'bars'}, ...results.map((result) => element('div', {class: 'bar-row'},
      element('span', {class: 'bar-name'}, `${result.scheme}, ${seconds(result.step_seconds)}`), bar(result, longest)))));
}

export function timeSection({results}, schemes) {
  return append(timeBars(results),
    table('The same in numbers', ['Scheme', 'Step', 'Computing alone', 'Hidden communication', 'Exposed communication', 'Idle',
      'Communication hidden'],
    results.map((result) => {
      const parts = shares(result), all = parts.hidden + parts.exposed;
      return [result.scheme, ...[result.step_seconds, parts.compute, parts.hidden, parts.exposed, parts.idle].map(seconds),
        all > 0 ? percent(parts.hidden / all) : '–'];
    })),
    origin('summary.json: step_seconds, compute_seconds, hidden_comm_seconds, exposed_comm_seconds; means over the steps, each of the ' +
      'rank with the largest, so that the parts of ranks which differ need not add up exactly.'),
    ranksPlot(schemes));
}
