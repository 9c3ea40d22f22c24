// Numbers as people read them, as the printed table writes them.
export function bytes(value) {
  if (value == null) return '–';
  if (Math.abs(value) < 1024) return `${trimmed(value, 0)} B`;
  let power = -1;
  for (; Math.abs(value) >= 1024 && power < 4; value /= 1024) ++power;
  return `${value.toFixed(2)} ${'KMGTP'[power]}iB`;
}

export function seconds(value) {
  if (value == null) return '–';
  if (value === 0) return '0 s';
  const size = Math.abs(value);
  if (size >= 1) return `${value.toFixed(3)} s`;
  if (size >= 1e-3) return `${(value * 1e3).toFixed(3)} ms`;
  return size >= 1e-6 ? `${(value * 1e6).toFixed(3)} µs` : `${trimmed(value * 1e9, 2)} ns`;
}

/** At most `digits` decimals, no zeros at the end. */
export function trimmed(value, digits = 4) {
  return value == null ? '–' : String(Number(value.toFixed(digits)));
}

/** For axes: no zeros at the end. */
export const short = (text) => text.replace(/\.0+(?= |$)|(\.\d*?)0+(?= |$)/, '$1');

export const count = (value) => (value == null ? '–' : value.toLocaleString('en-US'));
export const significant = (value) => (value == null ? '–' : String(Number(value.toPrecision(6))));
/** By the unit in the figure's name: step_seconds, peak_bytes, traffic. */
export function figure(name, value) {
  if (name.endsWith('_seconds')) return seconds(value);
  return name.includes('bytes') && !name.endsWith('_per_param') ? bytes(value) : trimmed(value);
}

/** The change from `from`, in percent of it. */
export function change(value, from) {
  if (value == null || !from) return '–';
  const share = 100 * (value - from) / Math.abs(from);
  const size = Math.abs(share);
  return share === 0 ? '=' : `${share > 0 ? '+' : '−'}${size < 0.05 ? Number(size.toPrecision(1)) : size.toFixed(1)} %`;
}

export const percent = (share) => `${(100 * share).toFixed(1)} %`;
