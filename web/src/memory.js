// Memory over the step of the peak, stacked by band, with the peak marked and taken apart.
import uPlot from 'uplot';
import {append, element, swatch, table} from './element.js';
import {bytes, percent, seconds, short, trimmed} from './format.js';
import {bandColour} from './colours.js';
import {schemeMenu} from './choice.js';
import {axis, livePlot} from './plot.js';
import {themeColour} from './theme.js';

/** Sums from below: the topmost band first, so that each is drawn over the ones behind it. */
function stacked(bands) {
  const names = Object.keys(bands), sums = [];
  let below = null;
  for (const name of names) {
    below = bands[name].map((value, i) => value + (below ? below[i] : 0));
    sums.push(below);
  }
  return {names: names.reverse(), sums: sums.reverse()};
}

function markPeak(memory) {
  return (plot) => {
    if (!memory.has_peak) return;
    const x = plot.valToPos(memory.peak_at / 1e9, 'x', true), pen = plot.ctx, {top, height, left, width} = plot.bbox;
    if (x < left || x > left + width) return;
    pen.save();
    pen.strokeStyle = pen.fillStyle = themeColour('--text');
    pen.lineWidth = 1.5 * devicePixelRatio;
    pen.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, top + height);
    pen.stroke();
    pen.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    pen.textAlign = x > left + width / 2 ? 'right' : 'left';
    pen.textBaseline = 'top';
    pen.fillText(' peak ', x, top + 2);
    pen.restore();
  };
}

/** bind: held since the start; everything else is a loan, named by the verb that took it. */
function composition(result) {
  const sums = new Map();
  for (const {band, unit, cause, bytes: held} of result.peak_parts) {
    const key = `${band} ${cause}`, sum = sums.get(key) ?? {band, cause, held: 0, units: new Set()};
    sum.held += held;
    if (unit != null) sum.units.add(unit);
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => b.held - a.held);
}

function unitsText(units, all) {
  const list = [...units].sort((a, b) => a - b);
  return !list.length ? '–' : list.length <= 4 ? list.join(', ') : `${list.length} of ${all}`;
}

export function memorySection(summary, schemes) {
  let shown, result;
  const plot = livePlot('Memory by band over the step', () => {
    const {names, sums} = stacked(shown.bands), at = shown.at.map((ns) => ns / 1e9);
    const steps = uPlot.paths.stepped({align: 1});
    return {
      options: {
        scales: {x: {time: false, range: [0, Math.max(shown.length / 1e9, at.at(-1) ?? 0, 1e-12)]}, y: {range: (u, low, high) => [0, high * 1.08 || 1]}},
        axes: [axis('time since the begin of the step', (s) => short(seconds(s)), 44), axis(null, (b) => short(bytes(b)), 84, true)],
        series: [{label: 'time', value: (u, x) => (x == null ? '–' : seconds(x))}, ...names.map((name) => ({label: name, paths: steps,
          stroke: bandColour(name), fill: bandColour(name), width: 1, points: {show: false},
          value: (u, y, s, i) => (i == null ? '–' : bytes(shown.bands[name][i]))}))],
        hooks: {draw: [markPeak(shown)]},
      },
      data: [at, ...sums],
    };
  });
  const legend = element('p', {class: 'legend'}), parts = element('div', {}), note = element('p', {class: 'origin'});
  const menu = schemeMenu(schemes, (index) => {
    shown = schemes[index].memory;
    result = summary.results[index];
    legend.replaceChildren(...Object.keys(shown.bands).map((name) => swatch(bandColour(name), name)));
    parts.replaceChildren(table(`${result.scheme}: held at the peak, ${bytes(result.peak_bytes)} at ${seconds(result.peak_seconds)}`,
      ['Band', 'Allocated by', 'Units', 'Bytes', 'Bytes per parameter', 'Share'], composition(result).map(({band, cause, held, units}) => [
        swatch(bandColour(band), band), cause === 'bind' ? 'bind (held throughout)' : cause, unitsText(units, result.units), bytes(held),
        trimmed(held / result.parameters), percent(held / (result.peak_bytes || 1))])));
    note.textContent = `From ${result.scheme}/memory.csv, rank ${shown.rank}, step ${shown.step}` +
      (shown.at.length < shown.thinned_from ? ` (${shown.at.length} of ${shown.thinned_from} instants; of every stretch the highest is kept)` : '') +
      (shown.has_peak ? '; the peak from summary.json: peak_bytes, peak_seconds, peak_parts.'
        : `; rank ${result.peak_bytes_rank ?? 0}, which has the peak, was not recorded, so the peak is not marked.`);
    plot.draw();
  });
  return append(element('div', {}), element('div', {class: 'controls'}, menu), legend, plot.place, parts, note);
}

