// Loss curves: one per scheme; schemes that train to the same bits lie on one another, and the text says so.
import {append, element, origin, swatch, table} from './element.js';
import {significant} from './format.js';
import {schemeColour} from './colours.js';
import {linePlot} from './plot.js';

/** Schemes of equal losses in one entry, first come first. */
function grouped(schemes) {
  const groups = new Map();
  for (const {scheme, steps} of schemes) {
    const key = JSON.stringify([steps.step, steps.loss]);
    if (groups.has(key)) groups.get(key).names.push(scheme);
    else groups.set(key, {names: [scheme], steps});
  }
  return [...groups.values()];
}

export function lossSection(summary, schemes) {
  const learning = schemes.filter(({steps}) => steps.loss.some((loss) => loss != null));
  if (!learning.length) return element('p', {}, 'No losses: numerics are off, the run has seconds and bytes only.');
  const groups = grouped(learning), x = groups.map(({steps}) => steps.step).sort((a, b) => b.length - a.length)[0];
  const series = groups.map(({names, steps}) => {
    const at = new Map(steps.step.map((step, i) => [step, steps.loss[i]]));
    return {label: names.join(', '), colour: schemeColour(names[0]), values: x.map((step) => at.get(step) ?? null)};
  });
  const floor = summary.results[0].entropy_nats_per_token;
  if (floor != null) series.push({label: 'entropy of the language', colour: '#8c8f99', dash: [6, 4], values: x.map(() => floor)});
  const twin = summary.numerics === 'twin' ? ' The loss is the thin twin’s, which learns in the full model’s place.' : '';
  const same = groups.filter(({names}) => names.length > 1).map(({names}) => `${names.join(', ')}: the same loss to the bit, one curve.`);
  return append(element('div', {}),
    element('p', {class: 'legend'}, ...series.map(({label, colour}) => swatch(colour, label))),
    linePlot({label: 'Loss by step', x, xLabel: 'step', value: significant, series}),
    element('p', {}, same.join(' ') + twin),
    element('details', {}, element('summary', {}, 'As a table'),
      table('Loss by step', ['Step', ...series.map(({label}) => label)],
        x.map((step, i) => [step, ...series.map(({values}) => significant(values[i]))]).filter((row, i) => i % Math.ceil(x.length / 200) === 0))),
    origin('steps.csv, column loss: the mean over ranks and micro-batches, before the update' +
      (learning[0].steps.stride > 1 ? `; every ${learning[0].steps.stride}th step` : ''), '.'));
}
