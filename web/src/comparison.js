// The comparison: formula | simulated | measured for bytes, and what a step takes; a dash where there is no such number.
import {append, element, origin, table} from './element.js';
import {bytes, change, count, figure, percent, seconds, significant, trimmed} from './format.js';

const triples = [
  ['Traffic per step, in P(N−1)/N', 'formula_traffic_units', 'traffic_units'],
  ['Resident, bytes per parameter', 'formula_resident_bytes_per_param', 'resident_bytes_per_param'],
  ['Model-state peak, bytes per parameter', 'formula_model_state_peak_bytes_per_param', 'model_state_peak_bytes_per_param'],
];

/** What the scenario tells of a real run, under this run's own name for it; undefined if it tells nothing. */
function told(result, own) {
  const find = (name) => result.measured?.find((each) => each.figure === name)?.measured;
  const whole = find(own.replace('_per_param', ''));
  return find(own === 'traffic_units' ? 'traffic' : own) ?? (own.endsWith('_per_param') && whole != null ? whole / result.parameters : undefined);
}

function bytesTable(results) {
  const head = element('thead', {},
    element('tr', {}, element('th', {scope: 'col', rowspan: 2}, 'Scheme'),
      ...triples.map(([name]) => element('th', {scope: 'colgroup', colspan: 3}, name))),
    element('tr', {}, ...triples.flatMap(() => ['formula', 'simulated', 'measured'].map((name) => element('th', {scope: 'col'}, name)))));
  const rows = results.map((result) => {
    const simulated = result.backend === 'simgrid';
    const cells = triples.flatMap(([, formula, own]) => {
      const differs = result[formula] != null && trimmed(result[formula]) !== trimmed(result[own]);
      const value = element('td', {class: differs ? 'differs' : null}, trimmed(result[own]));
      const other = element('td', {}, simulated ? trimmed(told(result, own)) : '–');
      return [element('td', {}, trimmed(result[formula])), ...(simulated ? [value, other] : [other, value])];
    });
    return element('tr', {}, element('th', {scope: 'row'}, result.scheme), ...cells);
  });
  const caption = 'Bytes: formula, simulated, measured';
  return element('div', {class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0},
    element('table', {id: 'triples'}, element('caption', {}, caption), head, element('tbody', {}, ...rows)));
}

/** Each figure that the scenario tells of a real run, beside this run's. */
function measuredTable({results, measured_source: source}) {
  const rows = results.flatMap(({scheme, measured}) => (measured ?? []).map(({figure: name, here, measured: real}) =>
    [scheme, name, figure(name, here), figure(name, real), change(here, real)]));
  if (!rows.length) return null;
  return append(element('div', {id: 'measured'}),
    table('Beside a real run', ['Scheme', 'Figure', results[0].backend === 'simgrid' ? 'Simulated' : 'Here', 'Measured', 'Error'], rows),
    element('p', {class: 'origin'}, `Measured: ${source}. From summary.json, measured; the scenario tells it.`));
}

const fits = (result) => (result.fits == null ? '–' : result.fits ? 'yes' : 'no');

function stepTable(results) {
  const unit = results[0].backend === 'simgrid' ? 'simulated' : 'measured';
  return table(`A step, ${unit}: the largest figure over the ranks`,
    ['Scheme', 'Step', 'Compute', 'Exposed communication', 'Hidden communication', 'Sent per rank', 'Total peak', 'Reserved', 'Fits',
      'Share of peak FLOP/s', 'First loss', 'Last loss', 'Theta'],
    results.map((r) => [r.scheme, seconds(r.step_seconds), seconds(r.compute_seconds), seconds(r.exposed_comm_seconds),
      seconds(r.hidden_comm_seconds), bytes(r.bytes_sent_per_rank_per_step), bytes(r.peak_bytes), bytes(r.reserved_bytes), fits(r),
      r.model_flops_utilisation == null ? '–' : percent(r.model_flops_utilisation), significant(r.loss_first),
      significant(r.loss_last), r.theta_hash?.slice(0, 8) ?? '–']));
}

export function comparison(summary) {
  const {results} = summary;
  const part = element('div', {}, bytesTable(results));
  append(part,
    element('p', {class: 'origin'}, 'Formula: the textbook’s closed form of what the scheme keeps and moves (formula_… in ' +
      'summary.json). Simulated: what the ledger held and the fabric sent. Measured: a run on real hardware or threads, or what the scenario ' +
      'tells of one; a dash where there is none. A marked number differs from its formula; the printed table below says why.'),
    measuredTable(summary),
    stepTable(results),
    origin('summary.json, one key per column (step_seconds, compute_seconds, …). P is the parameters’ bytes, N the ranks (',
      count(results[0].world), ').'));
  return part;
}
