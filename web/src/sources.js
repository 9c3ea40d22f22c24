// The scenario, the printout, and where every number comes from.
import {append, element, table} from './element.js';

const files = [
  ['summary.json', 'all figures per scheme, units in the names; formulas beside them'],
  ['steps.csv', 'loss, begin and end of every step of the world'],
  ['<scheme>/timeline.csv', 'the last step: what ran on each stream of the recorded ranks'],
  ['<scheme>/memory.csv', 'every allocation and release of the recorded ranks, with band, unit and cause'],
  ['<scheme>/memory_by_band.csv', 'what is held, band by band, whenever that changes'],
  ['<scheme>/collectives.csv', 'every collective of the recorded ranks'],
  ['<scheme>/links.csv', 'bytes over every link, in the whole run'],
  ['<scheme>/trace.json', 'every operation, for Perfetto, chrome://tracing or TensorBoard'],
  ['<scheme>/memory_snapshot.pickle', 'the blocks of memory, for PyTorch’s memory viewer'],
  ['scenario.yaml', 'what was run, with what the command line changed'],
  ['table.txt', 'what the run printed'],
];

const code = (label, text) => element('pre', {tabindex: 0, role: 'region', 'aria-label': label}, text);

export function sourceSections({summary, scenario, table: printed}) {
  const parts = [];
  if (scenario) {
    parts.push({id: 'scenario', title: 'The scenario', part: append(element('div', {}),
      element('p', {}, `Read from ${summary.scenario_file}, with what the command line changed. Run it again: shardsim run scenario.yaml, in this folder`),
      code('The scenario as YAML', scenario),
      summary.defaults_used.length ? element('p', {}, 'Left to its default: ', summary.defaults_used.join('; '), '.') : null)});
  }
  if (printed) parts.push({id: 'printed', title: 'What the run printed', part: code('The printed table', printed)});
  parts.push({id: 'sources', title: 'Where the numbers come from', part: table('The files beside this page', ['File', 'What is in it'], files)});
  return parts;
}
