// Light or dark: as the system says, until the switch says otherwise. Charts are drawn again when it changes, and light for print.
import {element} from './element.js';

const listeners = [];
export const onThemeChange = (listener) => listeners.push(listener);
export const themeColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function show(theme) {
  document.documentElement.dataset.theme = theme;
  listeners.forEach((listener) => listener());
}

export function themeSwitch() {
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  const current = () => chosen ?? (system.matches ? 'dark' : 'light');
  const button = element('button', {type: 'button', id: 'theme', onclick: () => {
    chosen = current() === 'dark' ? 'light' : 'dark';
    apply();
  }});
  function apply() {
    show(current());
    button.textContent = current() === 'dark' ? 'Light theme' : 'Dark theme';
  }
  system.addEventListener('change', apply);
  addEventListener('beforeprint', () => show('light'));
  addEventListener('afterprint', apply);
  apply();
  return button;
}
