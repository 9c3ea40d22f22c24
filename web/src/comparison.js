// The comparison: formula | simulated | measured for bytes, and what a step takes; a dash where there is no such number.
import {append, element, origin, table} from './element.js';
import {bytes, count, percent, seconds, significant, trimmed} from './format.js';

const triples = [
  ['Traffic per step, in P(N−1)/N', 'formula_traffic_units', 'traffic_units'],
  ['Resident, bytes per parameter', 'formula_resident_bytes_per_param', 'resident_bytes_per_param'],
  ['Model-state peak, bytes per parameter', 'formula_model_state_peak_bytes_per_param', 'model_state_peak_bytes_per_param'],
];

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
      const dash = element('td', {}, '–');
      return [element('td', {}, trimmed(result[formula])), ...(simulated ? [value, dash] : [dash, value])];
    });
    return element('tr', {}, element('th', {scope: 'row'}, result.scheme), ...cells);
  });
  const caption = 'Bytes: formula, simulated, measured';
  return element('div', {class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0},
    element('table', {id: 'triples'}, element('caption', {}, caption), head, element('tbody', {}, ...rows)));
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
      'summary.json). Simulated: what the ledger held and the fabric sent. Measured: a run on real hardware or threads; a dash where ' +
      'there is none. A marked number differs from its formula; the printed table below says why.'),
    stepTable(results),
    origin('summary.json, one key per column (step_seconds, compute_seconds, …). P is the parameters’ bytes, N the ranks (',
      count(results[0].world), ').'));
  return part;
}
