// Several runs on one page: what changed in the scenario, and of every scheme each figure with the reasons for its change.
import {element, table} from './element.js';
import {bytes, change, seconds, significant, trimmed} from './format.js';
import {timeBars} from './time.js';
import {timelineSection} from './timeline_section.js';

const changeText = (share) => (share == null ? '' : change(1 + share, 1));

function figures({scheme, rows}, runs) {
  const head = ['Figure', ...runs.flatMap(({letter}, i) => (i ? [letter, 'change'] : [letter])), 'Why'];
  const body = rows.map(({figure, values, changes, why}) => [figure,
    ...values.flatMap((value, i) => (i ? [value, element('span', {class: changes[i] ? 'moved' : 'same'}, changeText(changes[i]))] : [value])),
    element('div', {class: 'why'}, ...runs.map(({letter}, i) => why[i] && element('div', {}, `${runs.length > 2 ? `${letter}: ` : ''}${why[i]}`)))]);
  return table(`${scheme}: each run beside ${runs[0].letter}`, head, body);
}

const values = {seconds, bytes, count: trimmed};

/** A scheme's prediction, figure by figure beside what was measured, what no machine may change but is not the same, and what only one has. */
function agreementTable({scheme, rows, contradictions, uncompared}) {
  const notes = [...contradictions, ...uncompared.map((line) => `Not compared: ${line}`)];
  const said = (unit, value) => (value == null ? '–' : (values[unit] ?? significant)(value));
  return element('div', {class: 'agreement'},
    table(`${scheme}: predicted and measured`, ['Part', 'Figure', 'Predicted', 'Measured', 'Error'],
      rows.map(({part, figure, unit, predicted, measured, error}) =>
        [part, figure, said(unit, predicted), said(unit, measured), changeText(error)])),
    notes.length > 0 && element('ul', {class: 'notes'}, ...notes.map((line) => element('li', {}, line))));
}

/** The runs' timelines of a scheme as one, whose streams are called after run and stream; null if no run has one. */
function oneAboveTheOther(scheme, runs, timelines) {
  const names = [], streams = {};
  let length = 1, rank = 0, step = 0;
  runs.forEach(({letter}, i) => {
    const timeline = timelines[i][scheme] ?? (Object.keys(timelines[i]).length === 1 ? Object.values(timelines[i])[0] : null);
    if (!timeline?.ranks.length) return;
    [{rank}, {step}, length] = [timeline.ranks[0], timeline, Math.max(length, timeline.length)];
    for (const [stream, slices] of Object.entries(timeline.ranks[0].streams ?? {}))
      streams[`${letter} ${stream}`] = slices.map(([begin, span, kind, ...rest]) => {
        if (!names.includes(timeline.names[kind])) names.push(timeline.names[kind]);
        return [begin, span, names.indexOf(timeline.names[kind]), ...rest];
      });
  });
  return names.length ? {scheme, timeline: {step, length, names, ranks: [{rank, streams}]}} : null;
}

/** Calls section(id, title, ...parts) for each part of the page. */
export function compareSections({comparison: {runs, changed, schemes, missing, agreement}, timelines}, section) {
  section('runs', 'The runs', table('Runs', ['Run', 'Scenario', 'Folder'], runs.map(({letter, scenario, name}) => [letter, scenario, name])));
  section('changed', 'What changed in the scenario', changed.length
    ? table('Keys that differ', ['Key', ...runs.map(({letter}) => letter)], changed.map(({key, values}) => [key, ...values.map((value) => value ?? 'says nothing')]))
    : element('p', {}, 'Nothing: the scenarios say the same.'));
  agreement?.schemes.forEach((scheme, i) =>
    section(`agreement-${i}`, `${scheme.scheme}: the prediction`, agreementTable(scheme)));
  schemes.forEach((scheme, i) => {
    const results = runs.flatMap(({letter, results}) => results.filter((result) => result.scheme === scheme.scheme || schemes.length === 1 && results.length === 1)
      .map((result) => ({...result, scheme: `${letter} (${result.scheme})`})));
    section(`scheme-${i}`, scheme.scheme, timeBars(results), figures(scheme, runs));
  });
  const shown = schemes.map(({scheme}) => oneAboveTheOther(scheme, runs, timelines)).filter((each) => each);
  if (shown.length) section('timeline', 'Timelines of the last steps, one above the other', timelineSection(shown));
  if (missing.length) section('missing', 'Not compared', element('p', {}, `Not in all of the runs: ${missing.join(', ')}.`));
  section('sources', 'Where the numbers come from', element('p', {}, 'Values: summary.json of each run. Reasons: seconds by verb from timeline.csv and ' +
    'collectives.csv, sent bytes by collective from collectives.csv, memory by band from resident_composition, model_state_peak_composition ' +
    'and peak_composition in summary.json; each is the difference to the first run, the largest part first. Scenario: scenario.yaml, and defaults_used in summary.json.'));
}
