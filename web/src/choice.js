// The scheme that the page shows, chosen in any section and the same in all of them.
import {element} from './element.js';

const listeners = [];
let chosen = 0;

/** A menu of the schemes; `show(index)` is called now and whenever another one is chosen anywhere. */
export function schemeMenu(schemes, show) {
  const menu = element('select', {onchange: () => {
    chosen = menu.selectedIndex;
    listeners.forEach((listener) => listener());
  }}, ...schemes.map(({scheme}) => element('option', {}, scheme)));
  const listener = () => {
    menu.selectedIndex = chosen;
    show(chosen);
  };
  listeners.push(listener);
  listener();
  return element('label', {class: 'menu'}, 'Scheme ', menu);
}
