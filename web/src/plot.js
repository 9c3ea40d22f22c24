// Curves through uPlot: it gets the page's colours, its width, a keyboard's cursor and the theme.
import uPlot from 'uplot';
import {element} from './element.js';
import {short} from './format.js';
import {onThemeChange, themeColour} from './theme.js';

const font = '12px system-ui, sans-serif';

/** A uPlot that follows the theme and the width; `make()` returns its options and data. */
export function livePlot(label, make) {
  const place = element('div', {class: 'plot', role: 'group', tabindex: 0, 'aria-label': `${label}. Arrow keys move the cursor.`});
  let plot = null, index = 0;
  const height = () => Math.max(220, Math.min(340, place.clientWidth * 0.5));
  function draw() {
    if (!place.clientWidth) return;
    plot?.destroy();
    const {options, data} = make();
    plot = new uPlot({width: place.clientWidth, height: height(), legend: {live: true}, ...options}, data, place);
  }
  new ResizeObserver(() => {
    if (!plot) draw();
    else if (place.clientWidth && plot.width !== place.clientWidth) plot.setSize({width: place.clientWidth, height: height()});
  }).observe(place);
  onThemeChange(draw);
  place.addEventListener('keydown', (event) => {
    const move = {ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20}[event.key];
    if (!plot || move == null) return;
    event.preventDefault();
    index = Math.max(0, Math.min(plot.data[0].length - 1, index + move));
    plot.setCursor({left: plot.valToPos(plot.data[0][index], 'x'), top: 10});
  });
  return {place, draw};
}

const powersOfTwo = Array.from({length: 60}, (_, i) => 2 ** i);

/** `value` makes a tick's text; `isBytes` puts the ticks at powers of two. */
export function axis(label, value, size, isBytes = false) {
  return {label, font, labelFont: font, size, stroke: themeColour('--soft'), grid: {stroke: themeColour('--line'), width: 1},
    ticks: {stroke: themeColour('--line'), width: 1}, values: value && ((plot, ticks) => ticks.map(value)),
    ...(isBytes ? {incrs: powersOfTwo} : {})};
}

/** Lines over a common x; `series`: {label, colour, values, dash}. */
export function linePlot({label, x, xLabel, value, series}) {
  return livePlot(label, () => ({
    options: {
      scales: {x: {time: false}},
      axes: [axis(xLabel, null, 40), axis(null, (y) => short(value(y)), 92)],
      series: [{label: xLabel}, ...series.map(({label, colour, dash, values}) => ({label, stroke: colour, width: 2, dash,
        points: {show: values.length < 3, size: 5}, value: (plot, y) => (y == null ? '–' : value(y))}))],
    },
    data: [x, ...series.map(({values}) => values)],
  })).place;
}

