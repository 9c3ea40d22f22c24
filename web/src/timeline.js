// The timeline's canvas: a row per stream, slices of time; zoom, pan, hover and search. No library: some thousand rectangles.
import {element} from './element.js';
import {verbColour} from './colours.js';
import {onThemeChange, themeColour} from './theme.js';

const rowHeight = 24, gap = 4, axisHeight = 22;
const font = '11px system-ui, sans-serif';

/** "50 µs" at a readable distance: 1, 2 or 5 times a power of ten. */
function tickStep(span, ticks) {
  const rough = span / ticks, power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
}

function tickText(ns, step) {
  const [unit, name] = step >= 1e9 ? [1e9, 's'] : step >= 1e6 ? [1e6, 'ms'] : step >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  return `${Number((ns / unit).toFixed(3))} ${name}`;
}

export class Timeline {
  /** `onHover(slice or null, x, y)` is told what lies under the pointer, `onView()` that another stretch is shown. */
  constructor({label, onHover, onView}) {
    this.onHover = onHover;
    this.onView = onView;
    this.rows = [];
    this.length = this.end = 1;
    this.begin = 0;
    this.matches = () => true;
    this.canvas = element('canvas', {tabindex: 0, role: 'application', 'aria-label': label, 'aria-describedby': 'timeline-keys'});
    this.place = element('div', {class: 'timeline'}, this.canvas);
    new ResizeObserver(() => this.draw()).observe(this.place);
    onThemeChange(() => this.draw());
    this.listen();
  }

  /** `rows`: [{name, slices: [{begin, length, verb, unit, ops, sent}]}], times in ns; slices of a row in time order. */
  show(rows, length) {
    this.rows = rows;
    this.length = Math.max(length, ...rows.flatMap(({slices}) => slices.map(({begin, length}) => begin + length)), 1);
    this.selected = null;
    this.view(0, this.length);
  }

  view(begin, end) {
    const span = Math.min(Math.max(end - begin, 10), this.length);
    this.begin = Math.min(Math.max(begin, 0), this.length - span);
    this.end = this.begin + span;
    this.draw();
    this.onView();
  }

  zoom(factor, at = (this.begin + this.end) / 2) {
    this.view(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }

  pan(share) {
    const move = share * (this.end - this.begin);
    this.view(this.begin + move, this.end + move);
  }

  /** Dims what does not match. */
  search(matches) {
    this.matches = matches;
    this.draw();
  }

  /** Selects the next slice that matches (or the one before), brings it into view and returns it. */
  step(direction) {
    const found = this.rows.flatMap(({name, slices}) => slices.filter(this.matches).map((slice) => ({...slice, row: name, slice})))
      .sort((a, b) => a.begin - b.begin);
    if (!found.length) return null;
    const at = found.findIndex(({slice}) => slice === this.selected);
    const next = found[at < 0 ? (direction > 0 ? 0 : found.length - 1) : (at + direction + found.length) % found.length];
    this.selected = next.slice;
    const span = this.end - this.begin, middle = next.begin + next.length / 2;
    if (next.begin < this.begin || next.begin + next.length > this.end) this.view(middle - span / 2, middle + span / 2);
    else this.draw();
    return next;
  }

  get nameWidth() { return this.place.clientWidth < 600 ? 64 : 118; }
  get scale() { return (this.place.clientWidth - this.nameWidth) / (this.end - this.begin); }
  timeAt(x) { return this.begin + (x - this.nameWidth) / this.scale; }

  sliceAt(x, y) {
    const row = this.rows[Math.floor((y - axisHeight) / (rowHeight + gap))];
    if (!row || x < this.nameWidth) return null;
    const time = this.timeAt(x), slack = 1.5 / this.scale;
    let best = null, distance = slack;
    for (const slice of row.slices) {
      const away = Math.max(slice.begin - time, time - slice.begin - slice.length, 0);
      if (away < distance || (away === 0 && distance === 0)) { best = slice; distance = away; }
    }
    return best && {...best, row: row.name, slice: best};
  }

  draw() {
    const width = this.place.clientWidth, height = axisHeight + this.rows.length * (rowHeight + gap);
    if (!width) return;
    const ratio = window.devicePixelRatio || 1, {canvas} = this;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext('2d');
    pen.scale(ratio, ratio);
    pen.font = font;
    pen.textBaseline = 'middle';
    this.drawAxis(pen, width, height);
    this.rows.forEach((row, i) => this.drawRow(pen, row, axisHeight + i * (rowHeight + gap), width));
  }

  drawAxis(pen, width, height) {
    const step = tickStep(this.end - this.begin, Math.max(2, (width - this.nameWidth) / 110));
    for (let time = Math.ceil(this.begin / step) * step; time <= this.end; time += step) {
      const x = this.nameWidth + (time - this.begin) * this.scale;
      pen.fillStyle = themeColour('--line');
      pen.fillRect(x, axisHeight - 4, 1, height);
      pen.fillStyle = themeColour('--soft');
      const text = tickText(time, step);
      if (x + pen.measureText(text).width < width) pen.fillText(text, x + 3, 9);
    }
  }

  drawRow(pen, row, y, width) {
    pen.fillStyle = themeColour('--text');
    pen.fillText(row.name, 2, y + rowHeight / 2, this.nameWidth - 8);
    let drawnTo = -1, drawnAs = '';
    for (const slice of row.slices) {
      if (slice.begin + slice.length < this.begin || slice.begin > this.end) continue;
      const x = Math.max(this.nameWidth, this.nameWidth + (slice.begin - this.begin) * this.scale);
      const right = Math.min(width, this.nameWidth + (slice.begin + slice.length - this.begin) * this.scale);
      const matches = this.matches(slice), colour = verbColour(slice.verb), as = colour + matches;
      if (right - drawnTo < 0.4 && as === drawnAs) continue;  // the pixel is painted already
      pen.globalAlpha = matches ? 1 : 0.18;
      pen.fillStyle = colour;
      pen.fillRect(x, y, Math.max(right - x - (right - x > 3 ? 0.5 : 0), 0.7), rowHeight);
      if (slice === this.selected) {
        pen.strokeStyle = themeColour('--text');
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, Math.max(right - x - 2, 1), rowHeight - 2);
      }
      if (right - x > 26) this.drawName(pen, slice, x, y, right - x);
      pen.globalAlpha = 1;
      drawnTo = right, drawnAs = as;
    }
  }

  drawName(pen, slice, x, y, width) {
    const unit = slice.unit < 0 ? '' : ` ${slice.unit}`;
    const text = [slice.verb + unit, unit].find((each) => each && pen.measureText(each).width < width - 6);
    if (!text) return;
    pen.fillStyle = '#101318';
    pen.fillText(text, x + 4, y + rowHeight / 2);
  }

  listen() {
    const {canvas} = this;
    let dragged = null;
    canvas.addEventListener('wheel', (event) => {
      const out = event.deltaY > 0;
      if (out && this.end - this.begin >= this.length) return;  // all is shown: the page scrolls
      event.preventDefault();
      this.zoom(out ? 1.25 : 0.8, this.timeAt(event.offsetX));
    }, {passive: false});
    canvas.addEventListener('pointerdown', (event) => {
      dragged = {x: event.clientX, begin: this.begin};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (dragged) {
        const begin = dragged.begin - (event.clientX - dragged.x) / this.scale;
        this.view(begin, begin + this.end - this.begin);
      }
      this.onHover(this.sliceAt(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    });
    for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, () => { dragged = null; });
    canvas.addEventListener('pointerleave', () => this.onHover(null));
    canvas.addEventListener('keydown', (event) => {
      const act = {ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), '+': () => this.zoom(0.7), '=': () => this.zoom(0.7),
        '-': () => this.zoom(1 / 0.7), Home: () => this.view(0, this.length), '0': () => this.view(0, this.length),
        n: () => this.announce(1), p: () => this.announce(-1)}[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
  }

  announce(direction) {
    const slice = this.step(direction);
    if (slice) this.onHover(slice, this.nameWidth + Math.max(0, slice.begin - this.begin) * this.scale, axisHeight);
  }
}
